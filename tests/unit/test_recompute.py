"""What the backward pass makes again: the same bits, the same dataflow, and nothing that the user wants kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dmc
from dmc import pipeline
from dmc._mlir import arith, ir
from dmc.analysis.kernels.inlined import is_of_windows
from dmc.analysis.requests.keeping import write_keeping
from dmc.analysis.requests.settings import write_settings
from dmc.dialect.iree import FUSION_BARRIER
from dmc.dialect.labels import module_path
from dmc.dialect.plan import type_bytes
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import run_passes
from dmc.passes.scheduled.tensors.recompute import Recompute
from dmc.passes.scheduled.tensors.recompute.flow import sink_side
from dmc.plans.rules import Keep
from dmc.program.labels import RECOMPUTED
from dmc.step_function import find_step
from dmc.walk import walk
from tests.before_pass import before_pass
from tests.meanings import said
from tests.partitioned import run_on_one_rank

# Smaller values are kept.
WIDTH, ROWS = 128, 256
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "gelu": lambda: nn.GELU(approximate="tanh"),
    "erf": nn.GELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "norm": lambda: nn.LayerNorm(WIDTH),
    "dropout": lambda: nn.Dropout(0.3),
}


class Block(nn.Module):
    """Layers with a residual sum around them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.inner = nn.Sequential(*(LAYERS[name]() for name in names), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


def before_recompute(blocks: list[tuple[str, ...]], context: ir.Context) -> tuple[ir.Module, list[Any]]:
    """A step of a model right before dm-recompute, and arguments."""
    torch.manual_seed(0)
    model = nn.Sequential(*map(Block, blocks))
    example = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    return before_pass("dm-recompute", model, example, context)


def recomputed(module: ir.Module, sums: bool = True) -> ir.Module:
    copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
    run_passes(copy, (Recompute(sums=sums),))
    return copy


def barriers(module: ir.Module) -> int:
    """Without draws, those that were added."""
    return sum(op.name == FUSION_BARRIER and len(op.results[0].type.shape) > 0 for op in walk(module.operation))


def kept_bytes(module: ir.Module) -> int:
    """What the backward pass makes values again from."""
    found = {op.operands[0] for op in walk(module.operation) if op.name == FUSION_BARRIER}
    return sum(type_bytes(value.type) for value in found if len(value.type.shape))


CASES = {
    "gelu": [("linear", "gelu")],
    "all": [("norm", "linear", "silu", "dropout"), ("linear", "relu")],
    "sums": [("norm", "linear", "dropout")] * 4,
}


@pytest.mark.parametrize("name", CASES)
def test_bits_and_dataflow_are_those_of_keeping_everything(name: str) -> None:
    with ir.Context() as context, ir.Location.unknown():
        dmc.dialect.load(context)
        module, arguments = before_recompute(CASES[name], context)
        other = recomputed(module)
        assert barriers(other) > barriers(module) == 0
        assert RECOMPUTED in other.operation.get_asm(enable_debug_info=True)
        results = [run_on_one_rank(each, [array.copy() for array in arguments]) for each in (module, other)]
        assert all(np.array_equal(one, two, equal_nan=True) for one, two in zip(*results, strict=True))
        assert said(module).differences(said(other)) == []
        write_keeping(module, [Keep("*")])
        assert RECOMPUTED not in recomputed(module).operation.get_asm(enable_debug_info=True)


def test_every_second_sum_is_made_again(context: ir.Context) -> None:
    """Of four, that of the third block, from that of the second: the first block's reads an argument, which is not."""
    module, _ = before_recompute(CASES["sums"], context)
    sums, narrow = (ROWS * WIDTH * width for width in (4, 2))
    made, kept = kept_bytes(recomputed(module)), kept_bytes(recomputed(module, sums=False))
    assert kept - made == sums - narrow


@pytest.mark.parametrize("is_value", [True, False])
def test_making_something_else_again_is_seen(context: Any, is_value: bool) -> None:
    """V9 sees a function of another value, and another function."""
    module, _ = before_recompute(CASES["gelu"], context)
    other = recomputed(module)
    ops = [view.operation for view in find_step(other).entry_block.operations]
    barrier = next(op for op in ops if op.name == FUSION_BARRIER)
    again = next(op for op in ops if barrier.results[0] in op.operands and RECOMPUTED in module_path(op.location))
    if is_value:
        between = ops[ops.index(barrier) + 1 : ops.index(again)]
        alike = [op for op in between if op.name == "linalg.generic" and op.results[0].type == barrier.results[0].type]
        again.operands[list(again.operands).index(barrier.results[0])] = alike[0].results[0]
    else:
        *_, last, _ = again.regions[0].blocks[0].operations
        with ir.InsertionPoint.after(last.operation):
            twice = arith.addf(last.operation.results[0], last.operation.results[0])
        again.regions[0].blocks[0].operations[-1].operation.operands[0] = twice
    other.operation.verify()
    assert said(module).differences(said(other)) == ["0.inner.2.weight"]


@settings(deadline=None)
@given(st.data())
def test_a_cut_is_as_small_as_any(data: st.DataObject) -> None:
    """Of a network of six nodes, beside all of its cuts."""
    ends = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)).filter(lambda edge: edge[0] != edge[1])
    edges = data.draw(st.lists(ends, max_size=14))
    side = sink_side(edges, 0, 5)
    cuts = [{5, *(node for node in range(1, 5) if bits >> node & 1)} for bits in range(0, 32, 2)]

    def size(sink: set[int] | frozenset[int]) -> int:
        return sum(weight for one, two, weight in edges if one not in sink and two in sink)

    assert 5 in side and 0 not in side and size(side) == min(map(size, cuts))
    assert all(side & set(range(6)) <= cut for cut in cuts if size(cut) == size(side))


class Pooled(nn.Module):
    """A convolution, a pooling whose windows overlap, and another convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.Conv2d(32, 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu(self.norm(self.first(x)))
        return self.second(nn.functional.max_pool2d(x, 3, 2, padding=1)).mean((2, 3))


def test_windows_are_not_kept(context: ir.Context) -> None:
    """What the backward pass makes again reads them where the image lies."""
    example = torch.randn(64, 3, 32, 32), torch.randn(64, 16)
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=0.1)
    made = import_step(Pooled(), loss, optimizer, example, Precision.BF16_MIXED, 1, 0, context)
    write_settings(made.module, "cuda", "h200", 0)
    pipeline.run(made.module, to_form="placed")
    passes = next(stage for stage in pipeline.STAGES if stage.form.name == "scheduled").passes
    run_passes(made.module, passes[: list(map(str, passes)).index("dm-recompute") + 1])
    kept = [op.operands[0] for op in walk(find_step(made.module)) if op.name == FUSION_BARRIER]
    makers = [value.owner.operation for value in kept if not isinstance(value.owner, ir.Block)]
    again = [op for op in walk(find_step(made.module)) if module_path(op.location).endswith(RECOMPUTED)]
    assert any("max" in str(op.location) for op in again), "the pooling is made again"
    assert not any(is_of_windows(op) for op in makers)
