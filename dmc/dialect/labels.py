"""Readable labels of operations, as discardable attributes of movements, `dm.reshard` and kernels.

`dm.tensor`: the name of a parameter, "gradient of" one, that of an argument or output for a copy, or nothing for an
activation, whose location names its module. `dm.why`: the rule of the plan, or the operation, that requires it.
`dm.label`: the module path of a kernel, or the contents of the bucket that it packs or unpacks. They do not affect the
program; the ledger, the tables of passes and reports show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dmc._mlir import ir
from dmc.program.labels import SEPARATOR, short

TENSOR, WHY, KERNEL = "dm.tensor", "dm.why", "dm.label"
# Begins the name of a location that says to which action of a pipeline an operation belongs.
_ACTION = "action "


@dataclass(frozen=True)
class Label:
    """What a movement carries, and why; empty if unknown."""

    tensor: str = ""
    why: str = ""

    @property
    def short(self) -> str:
        """What it carries, abbreviated."""
        return short(self.tensor)

    def joined(self, other: Label) -> Label:
        """The label of one movement that replaces two."""
        return Label(_joined(self.tensor, other.tensor), _joined(self.why, other.why))


def label_of(op: ir.Operation) -> Label:
    """The label of a movement."""
    tensor, why = (ir.StringAttr(op.attributes[name]).value if name in op.attributes else "" for name in (TENSOR, WHY))
    return Label(tensor, why)


def put_label(op: ir.Operation, label: Label) -> None:
    """Labels a movement; empty labels get no attribute."""
    for name, text in ((TENSOR, label.tensor), (WHY, label.why)):
        if text:
            op.attributes[name] = ir.StringAttr.get(text)


def kernel_label_of(op: ir.Operation) -> str:
    """The module path of a kernel; "" for other operations, and if unknown."""
    return ir.StringAttr(op.attributes[KERNEL]).value if KERNEL in op.attributes else ""


def put_kernel_label(kernel: ir.Operation, label: str) -> None:
    """Labels a kernel; empty labels get no attribute."""
    if label:
        kernel.attributes[KERNEL] = ir.StringAttr.get(label)


def with_action(location: ir.Location, action: str) -> ir.Location:
    """The location of an operation that a pipeline runs in this action, such as `2F0`."""
    return ir.Location.name(f"{_ACTION}{action}", location) if action else location


def in_action_of(location: ir.Location, reader: ir.Operation) -> ir.Location:
    """The location of an operation that is copied for a reader: a pipeline runs the two in one action."""
    return with_action(location, action_of(reader.location))


def action_of(location: Any) -> str:
    """The action of a pipeline in which an operation runs, `2F0`; "" of none."""
    match location:
        case ir.CallSiteLoc():
            return action_of(location.caller) or action_of(location.callee)
        case ir.FusedLoc():
            return next(filter(None, map(action_of, location.locations)), "")
        case ir.NameLoc() if location.name_str.startswith(_ACTION):
            return location.name_str.removeprefix(_ACTION)
        case _:
            return ""


def place_of(location: Any) -> str:
    """`h.0.mlp#aten.addmm (model.py:12)`: module, operation and line, of the first of several; "" if unknown."""
    match location:
        case ir.CallSiteLoc():
            return place_of(location.caller) or place_of(location.callee)
        case ir.FusedLoc():
            return next(filter(None, map(place_of, location.locations)), "")
        case ir.NameLoc() if location.name_str.startswith(_ACTION):
            return place_of(location.child_loc)
        case ir.NameLoc():
            line = place_of(location.child_loc)
            return f"{location.name_str} ({line})" if line else location.name_str
        case ir.FileLineColLoc():
            return f"{location.filename}:{location.start_line}"
        case _:
            return ""


def module_path(location: Any) -> str:
    """`h.3.attn, backward`: the place of a location in the model; `#aten.mean` outside of modules; "" if unknown.

    The suffix `backward` marks a module's gradient, `update` a parameter's optimizer update. A function's operations
    belong to the module that calls it.
    """
    names = list(_names(location))
    return next(filter(None, map(_module, names)), names[0] if names else "")


def _names(location: Any) -> Iterator[str]:
    """The names of the location, outermost first."""
    match location:
        case ir.CallSiteLoc():
            yield from _names(location.caller)
            yield from _names(location.callee)
        case ir.FusedLoc():
            for each in location.locations:
                yield from _names(each)
        case ir.NameLoc() if location.name_str.startswith(_ACTION):
            yield from _names(location.child_loc)
        case ir.NameLoc():
            yield location.name_str
        case _:
            return


def _module(name: str) -> str:
    """`h.3.attn, backward` of `h.3.attn#aten.mm, backward`; "" of `#aten.mm`."""
    module, _, operator = name.partition("#")
    _, comma, part = operator.partition(", ")
    return module + comma + part if module else ""


def _joined(one: str, other: str) -> str:
    parts = [part for text in (one, other) for part in text.split(SEPARATOR) if part]
    return SEPARATOR.join(dict.fromkeys(parts))
