"""Operations on tensors on one rank, in numpy. Meant for small tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dmc._mlir import ir
from dmc.dialect.iree import FUSION_BARRIER
from dmc.dtypes import Array
from dmc.errors import DmcError
from dmc.interpreter.scalars import compute, dtype_of
from dmc.interpreter.structured import structured

Values = Mapping[Any, Any]


def evaluate(op: Any, values: Values) -> list[Any]:
    """The results of `op`, whose operands are in `values`. Raises DmcError if `op` is not supported."""
    if op.name in RULES:
        return [RULES[op.name](op, values)]
    if op.name.startswith("linalg."):
        return structured(op, values, evaluate)
    return [compute(op, [values[operand] for operand in op.operands])]


def _constant(op: Any, values: Values) -> Array:
    value, type_ = op.attributes["value"], op.results[0].type
    if isinstance(value, ir.DenseElementsAttr):
        content = value.get_splat_value().value if value.is_splat else np.array(value)
        return np.broadcast_to(np.asarray(content, dtype_of(type_)), type_.shape).copy()
    if isinstance(type_, ir.RankedTensorType):
        return _resource(op, str(value), type_)
    return np.asarray(value.value, dtype_of(type_))


def _resource(op: Any, name: str, type_: Any) -> Array:
    """A constant stored as a resource of the module. The bindings do not expose it, but the text does."""
    while op.parent is not None:
        op = op.parent
    key = name.removeprefix("dense_resource<").partition(">")[0]
    found = re.search(rf'\b{re.escape(key)}: "0x([0-9A-F]+)"', op.get_asm())
    assert found is not None, f"no resource {key}"
    # Four bytes give its alignment.
    return np.frombuffer(bytes.fromhex(found[1])[4:], dtype_of(type_)).reshape(type_.shape).copy()


def _empty(op: Any, values: Values) -> Array:
    # Not zeros: reads of them would go unnoticed.
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
    """The indices of a slice; only offsets may be dynamic, and are the operands from `first` on."""
    dynamic = iter(list(op.operands)[first:])
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    offsets = [int(values[next(dynamic)]) if at == marker else at for at in op.attributes["static_offsets"]]
    sizes, strides = op.attributes["static_sizes"], op.attributes["static_strides"]
    places = zip(offsets, sizes, strides, strict=True)
    return tuple(slice(at, at + (size - 1) * stride + 1, stride) for at, size, stride in places)


def _pad(op: Any, values: Values) -> Array:
    local: dict[Any, Any] = dict(values)
    *body, terminator = [view.operation for view in op.regions[0].blocks[0].operations]
    for inner in body:
        local.update(zip(inner.results, evaluate(inner, local), strict=True))
    edges = list(zip(op.attributes["static_low"], op.attributes["static_high"], strict=True))
    # Negative padding crops.
    kept = tuple(slice(max(-low, 0), -max(-high, 0) or None) for low, high in edges)
    added = [(max(low, 0), max(high, 0)) for low, high in edges]
    return np.pad(values[op.operands[0]][kept], added, constant_values=local[terminator.operands[0]])


def _concat(op: Any, values: Values) -> Array:
    return np.concatenate([values[operand] for operand in op.operands], axis=op.attributes["dim"].value)


def _extract(op: Any, values: Values) -> Array:
    source, *places = (values[operand] for operand in op.operands)
    _check_inside(op, places, source.shape)
    return source[tuple(places)]


def _insert(op: Any, values: Values) -> Array:
    scalar, target, *places = (values[operand] for operand in op.operands)
    _check_inside(op, places, target.shape)
    changed = target.copy()
    changed[tuple(places)] = scalar
    return changed


def _check_inside(op: Any, places: Sequence[Any], shape: Sequence[int]) -> None:
    for place, size in zip(places, shape, strict=True):
        if np.min(place) < 0 or np.max(place) >= size:
            raise DmcError(op, f"reads index {np.min(place)} to {np.max(place)} of {size}", "guard the index")


def _splat(op: Any, values: Values) -> Array:
    return np.full(op.results[0].type.shape, values[op.operands[0]])


def _from_elements(op: Any, values: Values) -> Array:
    return np.array([values[operand] for operand in op.operands]).reshape(op.results[0].type.shape)


def _same(op: Any, values: Values) -> Array:
    return values[op.operands[0]]


RULES: dict[str, Callable[[Any, Values], Array]] = {
    "arith.constant": _constant,
    "tensor.empty": _empty,
    "linalg.fill": _fill,
    # Only the static type changes.
    "tensor.cast": lambda op, values: values[op.operands[0]],
    "tensor.expand_shape": _reshape,
    "tensor.collapse_shape": _reshape,
    "linalg.transpose": _transpose,
    "linalg.broadcast": _broadcast,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
    "tensor.extract": _extract,
    "tensor.insert": _insert,
    "tensor.splat": _splat,
    "tensor.from_elements": _from_elements,
    FUSION_BARRIER: _same,
}
