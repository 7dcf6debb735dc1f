"""The ledger of GPT-2 under each way to train it on four ranks equals what one calculates by hand."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import dmc
import dmc.optim
from dmc._mlir import ir
from dmc.analysis.requests.plan import write_plan
from dmc.dtypes import numpy_type
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.interpreter import spmd
from dmc.lowering.ledger import movements_of
from dmc.mesh import Mesh
from dmc.passes.placed.fold_collectives import FoldCollectives
from dmc.passes.placed.lower_reshard import LowerReshard
from dmc.passes.placed.partition import Partition
from dmc.passes.placed.propagate_sharding import PropagateSharding
from dmc.plans import Plan, ResolvedPlan, resolve
from dmc.program.movements import Bound, Movements, Total
from dmc.runtime.reports.ledger import Ledger
from dmc.step_function import find_step

RANKS = 4
# Of one all-reduce of one f32, by rank: the first reduces it and sends it to the others.
SCALAR = (12, 4, 4, 4)


@dataclass(frozen=True)
class Sizes:
    layers: int
    width: int
    batch: int
    length: int


# The batch is large enough for gradients to be smaller than the activations that they are made of.
SMALL, TINY = Sizes(layers=2, width=64, batch=16, length=32), Sizes(layers=1, width=16, batch=4, length=8)


def _model(sizes: Sizes) -> transformers.GPT2LMHeadModel:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=128,
        n_positions=sizes.length,
        n_embd=sizes.width,
        n_layer=sizes.layers,
        n_head=4,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return transformers.GPT2LMHeadModel(config).train()


def _table(moved: Movements) -> str:
    return Ledger(**{each.name: getattr(moved, each.name) for each in fields(moved)}).table()


def _rank_program(
    plan: Plan, sizes: Sizes, context: Any, optimizer: Any = dmc.optim.AdamW(), accumulate: int = 1
) -> tuple[ir.Module, ResolvedPlan]:
    model, tokens = _model(sizes), torch.zeros(sizes.batch, sizes.length, dtype=torch.int64)
    example = {"input_ids": tokens, "labels": tokens}
    imported = import_step(model, None, optimizer, example, Precision.FP32, accumulate, 0, context)
    signature = imported.signature
    modules = [name for name, _ in model.named_modules()]
    resolved = resolve(plan, signature.state, modules, signature.batch, accumulate)
    write_plan(imported.module, resolved, signature, "cpu")
    for element in (PropagateSharding(), Partition(), LowerReshard(), FoldCollectives()):
        element.run(imported.module)
    return imported.module, resolved


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_data_parallel(context: Any, zero: int) -> None:
    plan = dmc.plan(Mesh(dp=RANKS)).data_parallel("dp", zero=zero)
    ledger = movements_of(*_rank_program(plan, SMALL, context))
    sizes = {name: 4 * prod(tensor.shape) for name, tensor in _model(SMALL).named_parameters()}
    least = 2 * (RANKS - 1) * sum(sizes.values())
    # The loss, and whether it is finite.
    scalars = [entry for entry in ledger.entries if entry.shape == ()]
    assert {entry.bytes for entry in scalars} == {sum(SCALAR)}
    others = len(scalars) * sum(SCALAR)
    assert ledger.bounded() == {("dp",): Total(least, least)}
    assert {total.ratio for total in ledger.totals.values()} == {1.0}
    assert {bound.of for bound in ledger.bounds} == set(sizes)
    kinds = {"all_reduce": least} if zero == 0 else {"reduce_scatter": least // 2, "all_gather": least // 2}
    assert ledger.by_kind() == {**kinds, "all_reduce": kinds.get("all_reduce", 0) + others}
    # Every rank sends as much as every other.
    assert ledger.ranks == tuple(least // RANKS + len(scalars) * scalar for scalar in SCALAR)
    whys = {entry.why for entry in ledger.entries if entry.owner in sizes}
    assert whys == {f'data_parallel("dp"{f", zero={zero}" if zero else ""})'}
    (line,) = [line for line in _table(ledger).splitlines() if "mlp.c_fc.weight" in line and "gradient" in line]
    assert "gradient of transformer.h.*.mlp.c_fc.weight ×2" in line


def test_tensor_parallel(context: Any) -> None:
    plan = dmc.plan(Mesh(tp=RANKS)).use(dmc.plans.megatron_gpt2("tp"))
    ledger = movements_of(*_rank_program(plan, SMALL, context))
    activation = SMALL.batch * SMALL.length * SMALL.width * 4
    in_blocks = [entry for entry in ledger.entries if entry.tensor.startswith("transformer.h.")]
    # Two all-reduces in forward and two in backward for each block (Shoeybi et al. 2019, section 3).
    assert {entry.kind for entry in in_blocks} == {"all_reduce"}
    assert [entry.bytes for entry in in_blocks] == [2 * (RANKS - 1) * activation] * 4 * SMALL.layers
    least = 2 * 2 * (RANKS - 1) * activation
    assert ledger.bounds == tuple(
        Bound(f"transformer.h.{i}.{part}", ("tp",), least) for i in range(SMALL.layers) for part in ("attn", "mlp")
    )
    assert {total.ratio for total in ledger.totals.values()} == {1.0}


PLANS = {
    "zero2_tp": (dmc.plan(Mesh(dp=2, tp=2)).data_parallel("dp", zero=2).use(dmc.plans.megatron_gpt2("tp")), 1),
    "zero3_accumulate": (dmc.plan(Mesh(dp=2)).data_parallel("dp", zero=3), 2),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_run_counts_what_the_ledger_says(context: Any, name: str) -> None:
    plan, accumulate = PLANS[name]
    module, resolved = _rank_program(plan, TINY, context, dmc.optim.SGD(lr=0.1), accumulate)
    ledger = movements_of(module, resolved)
    # What is sent does not depend on what is computed.
    inputs = find_step(module).type.inputs
    arguments = [np.zeros(each.shape, numpy_type(str(each.element_type))) for each in inputs]
    assert spmd.run(module, "step", [arguments] * plan.mesh.size).bytes == ledger.bytes
    assert ledger.bytes > 0
