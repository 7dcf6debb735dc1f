"""The loops of reshapes, slices, paddings, concatenations and elementwise arithmetic on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dmc._mlir import ir
from dmc.analysis.loops.loops import FIXED, MAX, MIN, SUM, Dims, Loop, Loops
from dmc.analysis.loops.splats import is_splat, is_zero
from dmc.walk import terminator_of

Rule = Callable[[ir.Operation], Loops | None]

_ANY_KIND = frozenset((SUM, MAX, MIN))
_SUM = frozenset((SUM,))


def tensor_loops(op: ir.Operation) -> Loops | None:
    """The loops of an operation of `tensor`, or of `arith` and `math` on tensors; None where it has no rule here."""
    if op.name in _RULES:
        return _RULES[op.name](op)
    is_on_tensors = len(op.results) == 1 and isinstance(op.results[0].type, ir.RankedTensorType)
    if op.name.partition(".")[0] in ("arith", "math") and is_on_tensors and op.name != "arith.constant":
        return _elementwise(op)
    return None


def _elementwise(op: ir.Operation) -> Loops:
    shape = _shape(op.results[0])
    dims = tuple((i,) for i in range(len(shape)))
    operands = tuple(dims if isinstance(each.type, ir.RankedTensorType) else None for each in op.operands)
    passes, coefficients = frozenset[str](), frozenset[int]()
    if op.name in ("arith.addf", "arith.subf", "arith.addi", "arith.subi", "arith.negf", "arith.extf", "arith.truncf"):
        passes = _SUM
    elif op.name == "arith.mulf":
        coefficients = frozenset([i for i, operand in enumerate(op.operands) if is_splat(operand)][:1])
        passes = _SUM if coefficients else passes
    loops = tuple(Loop(size) for size in shape)
    return Loops(loops, operands, (dims,), passes=passes, coefficients=coefficients)


def _expand(op: ir.Operation) -> Loops:
    groups = _groups(op)
    result = tuple((i,) for i in range(len(_shape(op.results[0]))))
    return Loops(_sizes(op.results[0]), (groups,), (result,), passes=_ANY_KIND)


def _collapse(op: ir.Operation) -> Loops:
    groups = _groups(op)
    operand = tuple((i,) for i in range(len(_shape(op.operands[0]))))
    return Loops(_sizes(op.operands[0]), (operand,), (groups,), passes=_ANY_KIND)


def _groups(op: ir.Operation) -> Dims:
    return tuple(tuple(ir.IntegerAttr(i).value for i in group) for group in op.attributes["reassociation"])


def _extract_slice(op: ir.Operation) -> Loops:
    source, result = _shape(op.operands[0]), _shape(op.results[0])
    sizes = _static(op, "static_sizes")
    loops, outer, inner = _pieces(op, source, sizes)
    # A slice may drop dimensions of size one.
    dims: list[tuple[int, ...]] = []
    for size, own in zip(sizes, inner, strict=True):
        if len(dims) < len(result) and size == result[len(dims)]:
            dims.append(own)
    others = (None,) * (len(op.operands) - 1)
    return Loops(loops, (outer, *others), (tuple(dims),), passes=_ANY_KIND, why="a slice of the dimension is taken")


def _insert_slice(op: ir.Operation) -> Loops:
    whole = _shape(op.results[0])
    if len(_shape(op.operands[0])) != len(whole):
        return _whole(op, "a slice of lower rank is inserted")
    loops, outer, inner = _pieces(op, whole, _static(op, "static_sizes"))
    others = (None,) * (len(op.operands) - 2)
    operands = (inner, outer, *others)
    return Loops(loops, operands, (outer,), passes=_ANY_KIND, why="only a part of the dimension is written")


def _pieces(op: ir.Operation, whole: Sequence[int], sizes: Sequence[int]) -> tuple[tuple[Loop, ...], Dims, Dims]:
    """The loops of a slice of `whole`, those of the dimensions of the whole, and those of the slice.

    A dimension that is taken whole has one loop. One of several equal pieces has two: which piece, and the index in it.
    """
    offsets, strides = _static(op, "static_offsets"), _static(op, "static_strides")
    loops: list[Loop] = []
    outer: list[tuple[int, ...]] = []
    inner: list[tuple[int, ...]] = []
    # Dynamic offsets, sizes and strides are a large negative number here.
    for offset, size, stride, full in zip(offsets, sizes, strides, whole, strict=True):
        if stride != 1 or size < 1 or offset < 0 or full % size or offset % size:
            outer.append(())
            inner.append(())
            continue
        which = [Loop(full // size, FIXED)] if size < full else []
        place = len(loops) + len(which)
        loops += [*which, Loop(size)]
        outer.append(tuple(range(place - len(which), place + 1)))
        inner.append((place,))
    return tuple(loops), tuple(outer), tuple(inner)


def _pad(op: ir.Operation) -> Loops:
    low, high = _static(op, "static_low"), _static(op, "static_high")
    loops: list[Loop] = []
    outer: list[tuple[int, ...]] = []
    inner: list[tuple[int, ...]] = []
    for size, before, after in zip(_shape(op.operands[0]), low, high, strict=True):
        if size < 1 or min(before, after) < 0 or before % size or after % size:
            outer.append(())
            inner.append(())
            continue
        which = [Loop((before + size + after) // size, FIXED)] if before or after else []
        place = len(loops) + len(which)
        loops += [*which, Loop(size)]
        outer.append(tuple(range(place - len(which), place + 1)))
        inner.append((place,))
    (block,) = op.regions[0].blocks
    padding = terminator_of(block).operands[0]
    passes = _SUM if is_zero(padding) else frozenset[str]()
    others = (None,) * (len(op.operands) - 1)
    return Loops(tuple(loops), (tuple(inner), *others), (tuple(outer),), passes=passes, why="the dimension is padded")


def _concat(op: ir.Operation) -> Loops:
    joined = ir.IntegerAttr(op.attributes["dim"]).value
    shape, pieces = _shape(op.results[0]), {_shape(operand)[joined] for operand in op.operands}
    dims: list[tuple[int, ...]] = [(i,) if i != joined else () for i in range(len(shape))]
    if len(pieces) != 1:
        operands = (tuple(dims),) * len(op.operands)
        return Loops(_sizes(op.results[0]), operands, (tuple(dims),), passes=_ANY_KIND, why="unequal pieces are joined")
    which, place = len(shape), joined
    loops = [Loop(size) for size in shape]
    loops[place] = Loop(pieces.pop())
    loops.append(Loop(len(op.operands), FIXED))
    dims[joined] = (place,)
    operand = tuple(dims)
    dims[joined] = (which, place)
    return Loops(tuple(loops), (operand,) * len(op.operands), (tuple(dims),), passes=_ANY_KIND)


def _whole(op: ir.Operation, why: str) -> Loops:
    operands = tuple(
        ((),) * len(_shape(each)) if isinstance(each.type, ir.RankedTensorType) else None for each in op.operands
    )
    results = tuple(((),) * len(_shape(each)) for each in op.results)
    return Loops((), operands, results, why=why)


def _static(op: ir.Operation, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def _sizes(value: ir.Value) -> tuple[Loop, ...]:
    return tuple(Loop(size) for size in _shape(value))


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


_RULES: dict[str, Rule] = {
    "tensor.expand_shape": _expand,
    "tensor.collapse_shape": _collapse,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
}
