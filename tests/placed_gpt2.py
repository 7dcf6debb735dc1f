"""A small GPT-2 in form placed, and what every rank is given: for tests of the passes behind placement."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

import dmc.optim
from dmc._mlir import ir
from dmc.analysis.requests.keeping import write_keeping
from dmc.analysis.requests.plan import write_plan
from dmc.analysis.storage.spaces import put_in_host_memory
from dmc.dialect.placements import placement_of
from dmc.dialect.transfers import SHARDING
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.mesh import Mesh
from dmc.passes.base import parse_pipeline, run_passes
from dmc.plans import Plan, keeping, resolve, waiting_state
from dmc.step_function import arguments, find_step
from tests.placements import part_of

Array = NDArray[Any]
PLACE = "dm-propagate-sharding,dm-partition,dm-lower-reshard,dm-fold-collectives"
VOCABULARY, LENGTH, BATCH = 32, 8, 4


def placed_gpt2(
    plan: Plan, context: Any, optimizer: Any = None, layers: int = 1
) -> tuple[ir.Module, list[list[Array]]]:
    """The step of a GPT-2 of width 16, with AdamW and clipping unless `optimizer`, and its arguments by rank."""
    module, given = _imported(plan, context, optimizer, layers)
    step = find_step(module)
    whole = [given[port.name] for port in arguments(step)]
    return module, parts(module, plan.mesh, whole)


def parts(module: ir.Module, mesh: Mesh, whole: list[Array]) -> list[list[Array]]:
    """What each rank has of whole arguments, by how `@step` says that they lie."""
    coming = [placement_of(each[SHARDING]) for each in find_step(module).arg_attrs]
    return [
        [part_of(array, placement, mesh, rank) for array, placement in zip(whole, coming, strict=True)]
        for rank in mesh.ranks
    ]


def _imported(plan: Plan, context: Any, optimizer: Any, layers: int) -> tuple[ir.Module, dict[str, Array]]:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=16,
        n_layer=layers,
        n_head=4,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    example = {"input_ids": tokens, "labels": tokens}
    optimizer = optimizer or dmc.optim.AdamW(lr=0.1, clip_grad_norm=1.0)
    imported = import_step(model.train(), None, optimizer, example, Precision.FP32, 1, 0, context)
    module, signature = imported.module, imported.signature
    modules = [name for name, _ in model.named_modules()]
    write_keeping(module, keeping(plan.rules, modules))
    put_in_host_memory(module, waiting_state(plan.rules, signature.state))
    write_plan(module, resolve(plan, signature.state, modules, signature.batch, 1), signature, "cpu")
    run_passes(module, parse_pipeline(PLACE))
    controls = {"lr": np.array([0.1], np.float32), "guard": np.array(0, np.int32)}
    given = {name: tensor.numpy().copy() for name, tensor in (*imported.state.items(), *example.items())}
    return module, {**given, **controls}
