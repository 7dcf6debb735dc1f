"""Inputs and outputs of the user's modules in the forward pass, by the locations of operations."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dmc._mlir import func, ir
from dmc.program.labels import BACKWARD, UPDATE
from dmc.walk import walk

# The suffix of an operation's name in the location of its gradient, or of an optimizer's update.
NOT_FORWARD = (BACKWARD, UPDATE)
# A module and its side, "input" or "output".
Side = tuple[str, str]


def module_values(step: func.FuncOp, modules: Collection[str]) -> dict[Side, list[ir.Value]]:
    """The tensors that the operations of each of `modules` use from outside it, and that others use from it.

    A module's operations include those of its submodules. Linear in operations times the depth of modules.
    """
    inside: dict[ir.Value, tuple[str, ...]] = {}
    forward = [op for op in walk(step) if len(op.results) and _is_forward(op)]
    for op in forward:
        own = tuple(path for path in _paths(_module(op)) if path in modules)
        inside.update(dict.fromkeys(op.results, own))
    found: dict[Side, dict[ir.Value, None]] = {}
    for op in forward:
        own = inside[op.results[0]]
        for value in op.operands:
            for side in _crossed(own, inside.get(value, ())) if isinstance(value.type, ir.RankedTensorType) else ():
                found.setdefault(side, {})[value] = None
    return {side: list(values) for side, values in found.items()}


def _crossed(own: Collection[str], given: Collection[str]) -> Iterator[Side]:
    """The module boundaries that a value crosses from inside the modules `given` to inside `own`."""
    yield from ((path, "input") for path in own if path not in given)
    yield from ((path, "output") for path in given if path not in own)


def _paths(module: str) -> Iterator[str]:
    """A module and its ancestors: `h.0.attn`, `h.0`, `h`."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def _module(op: ir.Operation) -> str:
    return _name(op).partition("#")[0]


def _is_forward(op: ir.Operation) -> bool:
    name = _name(op)
    return "#" in name and not name.endswith(NOT_FORWARD)


def _name(op: ir.Operation) -> str:
    location = op.location
    return location.name_str if isinstance(location, ir.NameLoc) else ""
