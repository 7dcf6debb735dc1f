"""Types and attributes in a few signs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dmc._mlir import ir
from dmc.dialect import GroupAttr, RangeAttr, ShardingAttr
from dmc.dialect.attributes import group_axes, partial_axes
from dmc.memo import remembered

_TENSOR = re.compile(r"tensor<([^<>]*)>")
_HANDLE = re.compile(r"!dm\.handle<(.*)>")
_WORD = re.compile(r'#dm\.\w+<"(.*)">')
_INTEGERS = re.compile(r"array<i\d+(?:: )?(.*)>")
_DEVICE = "device"
_MOST = 60


@remembered
def type_text(given: ir.Type) -> str:
    """`2x4xf32` of a tensor, `handle 2x4xf32`, `token`."""
    text = _HANDLE.sub(r"handle \1", str(given))
    return _TENSOR.sub(r"\1", text).removeprefix("!dm.")


def attribute_text(given: ir.Attribute) -> str:
    """The attribute without its type: `4`, `[0, 64]`, `dp`, `@body`; bytes of an arena are `pinned_host[0, 128)`, or
    `[0, 128)` in the device's.
    """
    match given:
        case ir.BoolAttr():
            return str(given.value).lower()
        case ir.IntegerAttr():
            return str(given.value)
        case ir.FloatAttr():
            return f"{given.value:.7g}"
        case ir.StringAttr():
            return given.value
        case ir.TypeAttr():
            return type_text(given.value)
        case ir.ArrayAttr():
            texts = [attribute_text(each) for each in given]
            return " ".join(texts) if texts and isinstance(given[0], RangeAttr) else _listed(texts)
        case ir.DictAttr():
            return f"{{{named_texts((each.name, each.attr) for each in given)}}}"
        case ir.UnitAttr():
            return "none"
        case ir.DenseElementsAttr():
            return _elements(given)
        case GroupAttr():
            return " ".join(group_axes(given))
        case ShardingAttr():
            return _sharding(given)
        case RangeAttr():
            first, size = (each.value for each in given.bounds)
            arena = given.arena.value
            return f"{'' if arena == _DEVICE else arena}[{first}, {first + size})"
        case _:
            return _INTEGERS.sub(r"[\1]", _WORD.sub(r"\1", str(given)))


def named_texts(named: Iterable[tuple[str, ir.Attribute]]) -> str:
    """`axis=0, bias=none, estimate`: a unit attribute is its name."""
    return ", ".join(
        name if isinstance(value, ir.UnitAttr) else f"{name}={attribute_text(value)}" for name, value in named
    )


def _listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


def _elements(given: ir.DenseElementsAttr) -> str:
    if given.is_splat:
        return attribute_text(given.get_splat_value())
    text = str(given).rpartition(" : ")[0]
    return text if len(text) <= _MOST else f"dense of {type_text(given.type)}"


def _sharding(given: ShardingAttr) -> str:
    """`[dp, 3*tp]`, with ` partial dp=sum`: what splits each dimension, `-` where nothing does."""
    split = _listed(" ".join(axis.value for axis in axes) or "-" for axes in given.dims)
    partial = "".join(f" partial {axis}={kind}" for axis, kind in partial_axes(given).items())
    return split + partial
