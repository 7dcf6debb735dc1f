"""Masks of dropout kept as bits: the same bits, the same dataflow, and nothing else passes for that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import nn

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.shapes import Loops
from dmc.kernels.bits import packed_width, unpacked_width
from dmc.passes.base import run_passes
from dmc.passes.scheduled.form_kernels import FormKernels
from dmc.passes.scheduled.tensors.pack_masks import PackMasks
from dmc.passes.scheduled.tensors.recompute import Recompute
from dmc.program.dataflow import Unpacked
from dmc.step_function import find_step
from dmc.walk import walk
from tests.before_pass import before_pass
from tests.meanings import said
from tests.partitioned import run_on_one_rank

ROWS = 6


class Block(nn.Module):
    """Layers with dropout on both sides of a residual sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(x)
        return x + self.drop(self.second(nn.functional.gelu(self.first(x))))


def before(width: int, context: ir.Context, rows: int = ROWS) -> tuple[ir.Module, list[Any]]:
    """A step right before dm-pack-masks, and arguments."""
    torch.manual_seed(0)
    model = nn.Sequential(Block(width), Block(width))
    example = torch.randn(rows, width), torch.randn(rows, width)
    return before_pass("dm-pack-masks", model, example, context)


def packed(module: ir.Module) -> ir.Module:
    """The step with masks as bits, as the backward pass reads them."""
    copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
    run_passes(copy, (PackMasks(least=1), Recompute()))
    return copy


def words(module: ir.Module, find: Callable[[Any], int | None] = packed_width) -> list[ir.Operation]:
    """The packings of a step."""
    return [op for op in walk(find_step(module)) if find(op) is not None]


@pytest.mark.parametrize(("width", "bits"), [(64, 32), (96, 32), (40, 8), (12, None)])
def test_bits_and_dataflow_are_those_of_bytes(width: int, bits: int | None, context: Any) -> None:
    module, arguments = before(width, context)
    other = packed(module)
    assert [packed_width(op) for op in words(other)] == [bits] * (4 if bits else 0)
    results = [run_on_one_rank(each, [array.copy() for array in arguments]) for each in (module, other)]
    assert all(np.array_equal(one, two, equal_nan=True) for one, two in zip(*results, strict=True))
    assert said(module).differences(said(other)) == []


def _from_the_other_end(op: ir.Operation) -> None:
    """Shifts a word to the left, where its bits are not."""
    shift = next(view.operation for view in op.regions[0].blocks[0].operations if "shrsi" in view.operation.name)
    with ir.InsertionPoint(shift), shift.location:
        new = ir.Operation.create("arith.shli", [shift.results[0].type], list(shift.operands))
    shift.results[0].replace_all_uses_with(new.results[0])
    shift.erase()


def _turned(op: ir.Operation) -> None:
    """Shifts the place of a bit by the bit."""
    shift = next(view.operation for view in op.regions[0].blocks[0].operations if "shli" in view.operation.name)
    bit, place = shift.operands
    shift.operands[0], shift.operands[1] = place, bit


def _of_another_mask(op: ir.Operation) -> None:
    """Reads the words of another mask."""
    barrier = op.operands[0].owner.operation
    alike = [view.operation for view in op.block.operations if view.operation.name == barrier.name]
    op.operands[0] = next(
        each.results[0] for each in alike if each != barrier and each.results[0].type == barrier.results[0].type
    )


@pytest.mark.parametrize("change", [_from_the_other_end, _of_another_mask])
def test_other_bits_are_seen(change: Callable[[ir.Operation], None], context: Any) -> None:
    """V9 and V11 see words that are read in another way, and other words."""
    module, _ = before(64, context)
    other = packed(module)
    change(words(other, unpacked_width)[-1])
    assert said(module).differences(said(other))


def test_bits_that_are_shifted_otherwise_are_no_packing(context: Any) -> None:
    module, _ = before(64, context)
    other = packed(module)
    op = words(other)[-1]
    _turned(op)
    assert packed_width(op) is None
    assert said(module).differences(said(other))


def test_words_of_another_width_are_another_mask(context: Any) -> None:
    module, _ = before(64, context)
    other = said(packed(module))
    nodes = tuple(replace(each, width=8) if isinstance(each, Unpacked) else each for each in other.step.nodes)
    changed = dataclasses.replace(other, step=replace(other.step, nodes=nodes))
    assert said(module).differences(other) == []
    assert said(module).differences(changed)


def test_readers_unpack_for_themselves(context: Any) -> None:
    """No kernel writes a mask, and each unpacking of words is still known as that, beside others too."""
    module, _ = before(512, context, rows=256)
    other = packed(module)
    run_passes(other, (FormKernels(),))
    kernels = [op.operation for op in find_step(other).entry_block.operations if isinstance(op, dm.KernelOp)]
    assert not [op for op in kernels if any(str(each.type) == "tensor<256x512xi1>" for each in op.results)]
    read = [sum(str(each.type) == "tensor<256x16xi32>" for each in op.operands) for op in kernels]
    symbols = ir.SymbolTable(other.operation)
    bodies = [symbols[op.opview.body.value].operation for op in kernels]
    assert [len({op.operands[0] for op in walk(body) if unpacked_width(op)}) for body in bodies] == read
    assert max(read) > 1


def test_a_packing_shares_no_loops_with_products_and_sums() -> None:
    words = Loops(sizes=frozenset((64,)), words=2)
    for other in (Loops(product=64), Loops(rows=(2, 32)), Loops(columns=(32, 2)), words):
        assert isinstance(words.joined(other), str) and isinstance(other.joined(words), str)
    assert words.joined(Loops(sizes=frozenset((64,)))) == words


@pytest.mark.parametrize("change", [("dense<0> : tensor<6x2xi32>", "dense<1> : tensor<6x2xi32>"), ("ori", "xori")])
def test_only_bits_of_a_mask_are_a_packing(change: tuple[str, str], context: Any) -> None:
    """Nor words that begin with a bit, nor those made otherwise."""
    module, _ = before(64, context)
    other = packed(module)
    text = other.operation.get_asm(enable_debug_info=True)
    place = text.index(change[0], text.index("tensor<6x2x32xi1>") - 600)
    changed = ir.Module.parse(text[:place] + text[place:].replace(*change, 1))
    assert len(words(changed)) < len(words(other))
    assert said(module).differences(said(changed))
