"""The ledger of GPT-2 under each way to train it on four ranks equals what one calculates by hand."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
import torch
import transformers

import dmc
import dmc.optim
from dmc.analysis.plan_attributes import write_plan
from dmc.importer.precision import Precision
from dmc.importer.step import import_step
from dmc.lowering.ledger import ledger_of
from dmc.mesh import Mesh
from dmc.passes.fold_collectives import FoldCollectives
from dmc.passes.lower_reshard import LowerReshard
from dmc.passes.partition import Partition
from dmc.passes.propagate_sharding import PropagateSharding
from dmc.plans import Plan, resolve
from dmc.runtime.ledger import Ledger, Total

LAYERS, WIDTH, VOCABULARY, BATCH, LENGTH, RANKS = 3, 64, 128, 16, 32, 4
# Of one all-reduce of one f32: the loss is a sum of losses and a count of targets.
SCALAR = 2 * (RANKS - 1) * 4


def _ledger(plan: Plan, context: Any) -> tuple[Ledger, dict[str, int]]:
    """The ledger of a step, and the bytes of each parameter."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=4,
        use_cache=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = transformers.GPT2LMHeadModel(config).train()
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    example = {"input_ids": tokens, "labels": tokens}
    imported = import_step(model, None, dmc.optim.AdamW(), example, Precision.FP32, 1, 0, context)
    signature = imported.signature
    modules = [name for name, _ in model.named_modules()]
    resolved = resolve(plan, signature.state, modules, signature.batch)
    write_plan(imported.module, resolved, signature, "cpu")
    for element in (PropagateSharding(), Partition(), LowerReshard(), FoldCollectives()):
        element.run(imported.module)
    sizes = {name: 4 * prod(tensor.shape) for name, tensor in model.named_parameters()}
    return ledger_of(imported.module, resolved), sizes


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_data_parallel(context: Any, zero: int) -> None:
    plan = dmc.plan(Mesh(dp=RANKS)).data_parallel("dp", zero=zero)
    ledger, sizes = _ledger(plan, context)
    least = 2 * (RANKS - 1) * sum(sizes.values())
    assert ledger.bytes == least + 2 * SCALAR
    assert ledger.bounded() == {("dp",): Total(least, least)}
    assert {total.ratio for total in ledger.of_tensors.values()} == {1.0}
    assert set(ledger.of_tensors) == set(sizes)
    half = least // 2
    kinds = {"all_reduce": least + 2 * SCALAR} if zero == 0 else {"reduce_scatter": half, "all_gather": half}
    assert ledger.by_kind() == (kinds if zero == 0 else {**kinds, "all_reduce": 2 * SCALAR})
    # Every rank sends as much as every other; the one element of a scalar is reduced by the first.
    assert ledger.ranks == tuple(least // RANKS + 2 * scalar for scalar in (12, 4, 4, 4))
    whys = {entry.why for entry in ledger.entries if entry.owner in sizes}
    assert whys == {f'data_parallel("dp"{f", zero={zero}" if zero else ""})'}
    (line,) = [line for line in ledger.table().splitlines() if "mlp.c_fc.weight" in line and "gradient" in line]
    assert "gradient of transformer.h.*.mlp.c_fc.weight ×3" in line


def test_tensor_parallel(context: Any) -> None:
    plan = dmc.plan(Mesh(tp=RANKS)).use(dmc.plans.megatron_gpt2("tp"))
    ledger, _ = _ledger(plan, context)
    activation = BATCH * LENGTH * WIDTH * 4
    in_blocks = [entry for entry in ledger.entries if entry.tensor.startswith("transformer.h.")]
    # Two all-reduces in forward and two in backward for each block (Shoeybi et al. 2019, section 3).
    assert {entry.kind for entry in in_blocks} == {"all_reduce"}
    assert [entry.bytes for entry in in_blocks] == [2 * (RANKS - 1) * activation] * 4 * LAYERS
    assert ledger.bounds == ()
