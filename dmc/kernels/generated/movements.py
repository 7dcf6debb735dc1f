"""Operations that only move elements, as index maps: nothing is computed for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dmc._mlir import ir
from dmc.kernels.generated.index import ZERO, Index, constant, delinearise, linearise, within
from dmc.kernels.generated.value import Value, literal

Places = tuple[Index, ...]


def _reshape(emitter: Any, op: Any, places: Places) -> Value:
    source = op.operands[0]
    number = linearise(places, op.results[0].type.shape)
    return emitter.emit(source, delinearise(number, source.type.shape))


def _cast(emitter: Any, op: Any, places: Places) -> Value:
    return emitter.emit(op.operands[0], places)


def _transpose(emitter: Any, op: Any, places: Places) -> Value:
    source: list[Index] = [ZERO] * len(places)
    for place, dim in zip(places, op.attributes["permutation"], strict=True):
        source[dim] = place
    return emitter.emit(op.operands[0], source)


def _broadcast(emitter: Any, op: Any, places: Places) -> Value:
    added = list(op.attributes["dimensions"])
    return emitter.emit(op.operands[0], [place for dim, place in enumerate(places) if dim not in added])


def _offsets(emitter: Any, op: Any, first: int) -> list[Index]:
    """The offsets of a slice; dynamic ones are the operands from `first` on."""
    dynamic = iter(list(op.operands)[first:])
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    return [
        emitter.place(emitter.scalar(next(dynamic))) if offset == marker else constant(offset)
        for offset in op.attributes["static_offsets"]
    ]


def _extract_slice(emitter: Any, op: Any, places: Places) -> Value:
    # A slice may drop dimensions of size 1.
    whole = delinearise(linearise(places, op.results[0].type.shape), list(op.attributes["static_sizes"]))
    steps = zip(_offsets(emitter, op, 1), whole, op.attributes["static_strides"], strict=True)
    return emitter.emit(op.operands[0], [place * step + offset for offset, place, step in steps])


def _insert_slice(emitter: Any, op: Any, places: Places) -> Value:
    source, target = op.operands[0], op.operands[1]
    sizes, steps = list(op.attributes["static_sizes"]), list(op.attributes["static_strides"])
    conditions: list[Value] = []
    inner: list[Index] = []
    for place, offset, size, step in zip(places, _offsets(emitter, op, 2), sizes, steps, strict=True):
        relative = place + offset * -1
        conditions.append(emitter.inside(relative, 0, size * step))
        if step > 1:
            conditions.append(emitter.inside(relative % step, 0, 1))
        inner.append(within(relative // step, size))
    condition = emitter.all_of(conditions)
    with emitter.where(condition):
        new = _fitting(emitter, condition, source, delinearise(linearise(inner, sizes), source.type.shape))
    return emitter.choose(condition, new, emitter.emit(target, places))


def _fitting(emitter: Any, condition: Value, source: Any, places: Sequence[Index]) -> Value:
    """The element of `source`, or anything if the condition never holds."""
    return literal(0, str(source.type.element_type)) if condition.constant is False else emitter.emit(source, places)


def _pad(emitter: Any, op: Any, places: Places) -> Value:
    source = op.operands[0]
    *_, terminator = op.regions[0].blocks[0].operations
    low = list(op.attributes["static_low"])
    shifted = [place + -before for place, before in zip(places, low, strict=True)]
    sizes = list(source.type.shape)
    condition = emitter.all_of([emitter.inside(place, 0, size) for place, size in zip(shifted, sizes, strict=True)])
    with emitter.where(condition):
        inner = _fitting(emitter, condition, source, [within(*each) for each in zip(shifted, sizes, strict=True)])
    return emitter.choose(condition, inner, emitter.scalar(terminator.operation.operands[0]))


def _concat(emitter: Any, op: Any, places: Places) -> Value:
    dim, parts = op.attributes["dim"].value, list(op.operands)
    starts = [sum(part.type.shape[dim] for part in parts[:i]) for i in range(len(parts))]
    made: Value | None = None
    for part, start in zip(reversed(parts), reversed(starts), strict=True):
        size, shifted = part.type.shape[dim], places[dim] + -start
        condition = emitter.inside(shifted, 0, size)
        if condition.constant is False:
            continue
        with emitter.where(condition):
            piece = emitter.emit(part, [within(shifted, size) if i == dim else each for i, each in enumerate(places)])
        # The parts cover all indices, so the last one needs no condition.
        made = piece if made is None else emitter.choose(condition, piece, made)
    assert made is not None, "an index is in one of the parts"
    return made


def _from_elements(emitter: Any, op: Any, places: Places) -> Value:
    values = [emitter.scalar(each) for each in op.operands]
    return emitter.pick(linearise(places, op.results[0].type.shape), values)


MOVEMENTS: dict[str, Callable[[Any, Any, Places], Value]] = {
    "tensor.expand_shape": _reshape,
    "tensor.collapse_shape": _reshape,
    "tensor.cast": _cast,
    "linalg.transpose": _transpose,
    "linalg.broadcast": _broadcast,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
    "tensor.from_elements": _from_elements,
}
