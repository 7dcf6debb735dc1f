"""Functions that only move elements: what their results are, as rows of the arguments' elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from dmc._mlir import func, ir
from dmc.analysis.pieces import RESHAPES
from dmc.analysis.segments import UNWRITTEN, Atom, Row, digest, joined, part, whole

_SLICES = ("tensor.extract_slice", "tensor.insert_slice")
_MOVING = (*RESHAPES, *_SLICES, "tensor.empty", "arith.constant", "linalg.fill", "func.return")
# A slice of more pieces than this is no bucket's.
_MOST_RUNS = 4096


def is_moving(function: func.FuncOp) -> bool:
    """Whether a function does nothing but fill, reshape, and cut and paste slices with static bounds."""
    return all(_can_follow(view.operation) for view in function.entry_block.operations)


def moved(function: func.FuncOp, given: Sequence[Row]) -> list[Row]:
    """The results of a function for which `is_moving` holds, for these arguments."""
    rows: dict[ir.Value, Row] = dict(zip(function.arguments, given, strict=True))
    *body, terminator = (view.operation for view in function.entry_block.operations)
    for op in body:
        if isinstance(op.results[0].type, ir.RankedTensorType):
            rows[op.results[0]] = _result(op, rows)
    return [rows[operand] for operand in terminator.operands]


def _result(op: ir.Operation, rows: dict[ir.Value, Row]) -> Row:
    size = prod(op.results[0].type.shape)
    match op.name:
        case "tensor.empty":
            return whole(UNWRITTEN, size)
        case "arith.constant":
            return whole(Atom(digest(str(op.attributes["value"]))), size)
        case "linalg.fill":
            return whole(Atom(digest("filled", str(op.operands[0].owner.attributes["value"])), uniform=True), size)
        case "tensor.extract_slice":
            row = rows[op.operands[0]]
            return joined(part(row, first, length) for first, length in _runs(op, op.operands[0]))
        case "tensor.insert_slice":
            return _inserted(rows[op.operands[0]], rows[op.operands[1]], _runs(op, op.operands[1]))
        case _:
            return rows[op.operands[0]]


def _inserted(source: Row, target: Row, runs: Iterator[tuple[int, int]]) -> Row:
    pieces: list[Row] = []
    taken = end = 0
    for first, length in runs:
        pieces += [part(target, end, first - end), part(source, taken, length)]
        taken, end = taken + length, first + length
    return joined([*pieces, part(target, end, target.length - end)])


def _runs(op: ir.Operation, whole_tensor: ir.Value) -> Iterator[tuple[int, int]]:
    """The stretches of the larger tensor that a slice is made of, as first element and length, in order."""
    shape = list(whole_tensor.type.shape)
    offsets, sizes = (list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes"))
    inner = _inner(shape, sizes)
    steps = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    length = prod(sizes[inner:])
    for index in product(*map(range, sizes[:inner])):
        places = [*(first + i for first, i in zip(offsets, index, strict=False)), *offsets[inner:]]
        yield sum(place * step for place, step in zip(places, steps, strict=True)), length


def _inner(shape: Sequence[int], sizes: Sequence[int]) -> int:
    """The first of the dimensions that lie in one stretch together: all but itself are whole."""
    inner = max(len(shape) - 1, 0)
    while inner > 0 and sizes[inner] == shape[inner]:
        inner -= 1
    return inner


def _can_follow(op: ir.Operation) -> bool:
    if op.name not in _MOVING:
        return False
    if op.name == "linalg.fill":
        return not isinstance(op.operands[0].owner, ir.Block) and op.operands[0].owner.name == "arith.constant"
    if op.name not in _SLICES:
        return True
    dynamic = ir.ShapedType.get_dynamic_size()
    offsets, sizes, strides = (list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
    larger = op.operands[op.name == "tensor.insert_slice"]
    is_static = all(stride == 1 for stride in strides) and dynamic not in (*offsets, *sizes)
    return is_static and prod(sizes[: _inner(list(larger.type.shape), sizes)]) <= _MOST_RUNS
