"""What stands in front on the line of an operation, by its name; its other attributes follow."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dmc._mlir import ir
from dmc.printer.attributes import attribute_text, named_texts
from dmc.printer.scopes import EMPTY, Scope

# `{operands}` are the operands in parentheses, any other name an attribute.
_FORMATS = {
    "dm.copy": "copy{operands} {source} -> {target}",
    "dm.kernel": "kernel {body}{operands}",
    "dm.composite": "composite {kind}{operands} {parameters} by {decomposition}",
    "dm.wait": "wait{operands}",
    "dm.reshard": "reshard{operands} {source} -> {target}",
    "dm.mesh": "mesh @{sym_name} of {axes} = {sizes}",
    "dm.arena": "arena @{sym_name} of {bytes} bytes",
    "dm.lane": "lane @{sym_name} of {queue}",
    "dm.slot": "slot {name}: {type} {role} at {range}",
    "dm.buffer": "buffer {range} {category} from {first} to {last}",
    "dm.launch": "{lane}: launch {kernel} {reads} -> {writes}",
    "dm.move": "{lane}: move {source} -> {target}",
    "dm.collective": "{lane}: {kind} {count} {type} {source} -> {target}",
    "dm.record": "{lane}: record event {event}",
    "dm.await": "{lane}: await event {event}",
    "tensor.extract_slice": "extract_slice{operands} at {static_offsets} of {static_sizes} by {static_strides}",
    "tensor.insert_slice": "insert_slice{operands} at {static_offsets} of {static_sizes} by {static_strides}",
}
_NAME = re.compile(r"{(\w+)}")
# What types say as well, and MLIR's own bookkeeping.
_LEFT_OUT = (
    *("operandSegmentSizes", "resultSegmentSizes", "indexing_maps", "linalg.memoized_indexing_maps"),
    *("reassociation", "static_output_shape", "fastmath", "overflowFlags", "sym_visibility"),
)
# Shown at the end of a line, in quotes, and what stands before them.
_LABELS = {"dm.label": "", "label": "", "dm.tensor": "", "dm.why": "for "}
_SHORT = ("dm.", "linalg.", "tensor.", "arith.", "math.", "func.", "scf.", "builtin.")


def op_text(op: ir.Operation, scope: Scope) -> str:
    """The operation, without results and regions."""
    given = shown_attributes(op)
    pattern = _FORMATS.get(op.name) or f"{short_name(op.name)}{' @{sym_name}' * ('sym_name' in given)}{{operands}}"
    shown = {name: attribute_text(given[name]) for name in _NAME.findall(pattern) if name in given}
    shown |= {"operands": _operands(op, scope), "lane": shown.get("lane", "")[1:]}
    front = _NAME.sub(lambda found: shown.get(found[1], ""), pattern).replace(" {} by", " by")
    return front + rest({name: value for name, value in given.items() if name not in shown})


def shown_attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes that people read."""
    return {name: op.attributes[name] for name in op.attributes if name not in _LEFT_OUT}


def rest(given: Mapping[str, ir.Attribute]) -> str:
    """Attributes behind everything else: ` {bytes=240, flops=160} "0, backward"`."""
    others = named_texts((name.removeprefix("dm."), value) for name, value in given.items() if name not in _LABELS)
    labels = [f' {word}"{attribute_text(given[name])}"' for name, word in _LABELS.items() if name in given]
    return (f" {{{others}}}" if others else "") + "".join(labels)


def short_name(name: str) -> str:
    """The name of an operation, without the dialects that readers of dmc's IR know."""
    return next((name.removeprefix(each) for each in _SHORT if name.startswith(each)), name)


def _operands(op: ir.Operation, scope: Scope) -> str:
    """`(%0, %1)`; what an operation of linalg writes onto comes behind, unless it is empty: `(%0, %1) onto %2`."""
    operands, targets = list(op.operands), list[ir.Value]()
    if op.name.startswith("linalg.") and len(op.results) and op.name != "linalg.index":
        operands, targets = operands[: -len(op.results)], operands[-len(op.results) :]
    text = f"({', '.join(map(scope.text, operands))})" if operands or op.name.startswith("dm.start") else ""
    onto = [scope.text(each) for each in targets if scope.text(each) != EMPTY]
    return text + (f" onto {', '.join(onto)}" if onto else "")
