"""Operations local to a rank in form scheduled, in numpy: waits, copies and buckets, for the interpreter of `dm`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc.dtypes import numpy_type

Array = NDArray[Any]
Values = Mapping[Any, Any]


def _same(op: Any, values: Values) -> list[Array]:
    return [values[op.operands[0]]]


def _pack(op: Any, values: Values) -> list[Array]:
    dtype = numpy_type(str(op.result.type.element_type))
    # Not zeros: reads of the padding would go unnoticed.
    flat = np.full(op.result.type.shape, 7 if dtype.kind in "biu" else np.nan, dtype)
    for operand, offset in zip(op.inputs, op.offsets, strict=True):
        content = values[operand].reshape(-1)
        flat[offset : offset + content.size] = content
    return [flat]


def _unpack(op: Any, values: Values) -> list[Array]:
    flat = values[op.input]
    members: list[Array] = []
    for output, offset in zip(op.outputs, op.offsets, strict=True):
        size = int(np.prod(output.type.shape, dtype=np.int64))
        members.append(flat[offset : offset + size].reshape(output.type.shape))
    return members


RULES: dict[str, Callable[[Any, Values], list[Array]]] = {
    "dm.copy": _same,
    "dm.wait": _same,
    "dm.pack": _pack,
    "dm.unpack": _unpack,
}
