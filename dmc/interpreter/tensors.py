"""What operations on tensors compute on one rank, in numpy.

`linalg` operations are computed over all their iterations at once, which is meant for small tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmc._mlir import ir, linalg
from dmc.interpreter.dtypes import Array
from dmc.interpreter.scalars import compute, dtype_of

Values = Mapping[Any, Any]
# Each as a ufunc, and what is neutral to it (of 32-bit integers and wider).
REDUCTIONS = {
    "arith.addf": (np.add, 0),
    "arith.addi": (np.add, 0),
    "arith.maximumf": (np.maximum, -np.inf),
    "arith.maxsi": (np.maximum, -(2**31)),
}
STRUCTURED = ("linalg.generic", "linalg.conv_2d_nchw_fchw")
MATRIX_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul")


def evaluate(op: Any, values: Values) -> list[Array]:
    """The results of `op`, whose operands are in `values`."""
    if op.name in RULES:
        return [RULES[op.name](op, values)]
    if op.name in STRUCTURED:
        return _generic(op, values)
    if op.name in MATRIX_PRODUCTS:
        a, b, c = (values[operand] for operand in op.operands)
        return [c + a @ b]
    return [compute(op, [values[operand] for operand in op.operands])]


def _constant(op: Any, values: Values) -> Array:
    value, type_ = op.attributes["value"], op.results[0].type
    if isinstance(value, ir.DenseElementsAttr):
        content = value.get_splat_value().value if value.is_splat else np.array(value)
        return np.broadcast_to(np.asarray(content, dtype_of(type_)), type_.shape).copy()
    return np.asarray(value.value, dtype_of(type_))


def _empty(op: Any, values: Values) -> Array:
    # Not zeros: what reads them would not be noticed.
    dtype = dtype_of(op.results[0].type)
    return np.full(op.results[0].type.shape, np.nan if np.issubdtype(dtype, np.floating) else 1, dtype)


def _fill(op: Any, values: Values) -> Array:
    return np.full_like(values[op.operands[1]], values[op.operands[0]])


def _reshape(op: Any, values: Values) -> Array:
    return values[op.operands[0]].reshape(op.results[0].type.shape)


def _transpose(op: Any, values: Values) -> Array:
    return values[op.operands[0]].transpose(list(op.attributes["permutation"]))


def _broadcast(op: Any, values: Values) -> Array:
    source = np.expand_dims(values[op.operands[0]], tuple(op.attributes["dimensions"]))
    return np.broadcast_to(source, op.results[0].type.shape).copy()


def _extract_slice(op: Any, values: Values) -> Array:
    return values[op.operands[0]][_ranges(op, values, 1)].reshape(op.results[0].type.shape)


def _insert_slice(op: Any, values: Values) -> Array:
    whole = values[op.operands[1]].copy()
    whole[_ranges(op, values, 2)] = values[op.operands[0]]
    return whole


def _ranges(op: Any, values: Values, first: int) -> tuple[slice, ...]:
    """What a slice takes; only offsets may be dynamic, and are the operands from `first` on."""
    dynamic = iter(list(op.operands)[first:])
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    offsets = [int(values[next(dynamic)]) if at == marker else at for at in op.attributes["static_offsets"]]
    sizes, strides = op.attributes["static_sizes"], op.attributes["static_strides"]
    places = zip(offsets, sizes, strides, strict=True)
    return tuple(slice(at, at + (size - 1) * stride + 1, stride) for at, size, stride in places)


def _pad(op: Any, values: Values) -> Array:
    (block,) = op.regions[0].blocks
    padding = values[block.operations[len(block.operations) - 1].operands[0]]
    edges = list(zip(op.attributes["static_low"], op.attributes["static_high"], strict=True))
    return np.pad(values[op.operands[0]], edges, constant_values=padding)


def _concat(op: Any, values: Values) -> Array:
    return np.concatenate([values[operand] for operand in op.operands], axis=op.attributes["dim"].value)


def _extract(op: Any, values: Values) -> Array:
    source, *places = (values[operand] for operand in op.operands)
    return source[tuple(places)]


def _from_elements(op: Any, values: Values) -> Array:
    return np.array([values[operand] for operand in op.operands]).reshape(op.results[0].type.shape)


def _generic(op: Any, values: Values) -> list[Array]:
    maps = [
        [str(place) for place in each.value.results] for each in map(ir.AffineMapAttr, linalg.get_indexing_maps(op))
    ]
    inputs = len(op.operands) - len(op.results)
    sizes = _sizes(op, maps, values)
    grid = {f"d{i}": np.arange(size).reshape([-1 if j == i else 1 for j in sizes]) for i, size in sizes.items()}
    (block,) = op.regions[0].blocks
    *body, terminator = [view.operation for view in block.operations]
    local: dict[Any, Any] = dict(values)
    reduced = [i for i in sizes if not any(f"d{i}" in places for places in maps[inputs:])]
    for i, (operand, places) in enumerate(zip(op.operands, maps, strict=True)):
        local[block.arguments[i]] = _read(values[operand], places, grid)
    for i, yielded in enumerate(terminator.operands if reduced else ()):
        local[block.arguments[inputs + i]] = np.asarray(_reduction(yielded)[1], dtype_of(op.results[i].type))
    for inner in body:
        local[inner.results[0]] = _scalar(inner, local, grid)
    outputs: list[Array] = []
    for i, yielded in enumerate(terminator.operands):
        whole = np.broadcast_to(local[yielded], [sizes[j] for j in sorted(sizes)])
        if reduced:
            is_read = next(iter(op.results[i].uses), None) is not None
            assert not is_read or yielded.owner.name in REDUCTIONS, f"{yielded.owner.name} is no reduction"
            whole = _reduction(yielded)[0].reduce(whole, axis=tuple(reduced), keepdims=True)
        result = _written(whole, maps[inputs + i], op.results[i].type)
        if reduced:
            result = _reduction(yielded)[0](values[op.operands[inputs + i]], result)
        outputs.append(result.astype(dtype_of(op.results[i].type)))
    return outputs


def _sizes(op: Any, maps: list[list[str]], values: Values) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for operand, places in zip(op.operands, maps, strict=True):
        for place, size in zip(places, np.shape(values[operand]), strict=True):
            if place[1:].isdigit() and place.startswith("d"):
                assert sizes.setdefault(int(place[1:]), size) == size, "operands of different sizes"
    return dict(sorted(sizes.items()))


def _read(array: Any, places: list[str], grid: Mapping[str, Array]) -> Any:
    # The text of an affine expression without floordiv and mod is Python.
    return np.asarray(array)[tuple(eval(place, {}, dict(grid)) for place in places)]


def _scalar(op: Any, local: Values, grid: Mapping[str, Array]) -> Any:
    if op.name == "linalg.index":
        return grid[f"d{op.attributes['dim'].value}"]
    return evaluate(op, local)[0]


def _reduction(yielded: Any) -> tuple[Any, Any]:
    """The ufunc and its neutral element; what is no reduction is an index of a maximum, of which nobody reads."""
    return REDUCTIONS.get(yielded.owner.name, (np.add, 0))


def _written(whole: Array, places: list[str], type_: Any) -> Array:
    """From the order of the loops to that of the result's dimensions."""
    order = [int(place[1:]) for place in places if place.startswith("d")]
    rest = [i for i in range(whole.ndim) if i not in order]
    return whole.transpose([*order, *rest]).reshape(type_.shape)


RULES: dict[str, Callable[[Any, Values], Array]] = {
    "arith.constant": _constant,
    "tensor.empty": _empty,
    "linalg.fill": _fill,
    "tensor.expand_shape": _reshape,
    "tensor.collapse_shape": _reshape,
    "linalg.transpose": _transpose,
    "linalg.broadcast": _broadcast,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
    "tensor.extract": _extract,
    "tensor.from_elements": _from_elements,
}
