"""The functions that define composites."""

from __future__ import annotations

from collections.abc import Iterable

from dmc._mlir import ir
from dmc.dialect import CompositeOp
from dmc.step_function import functions, symbol
from dmc.walk import walk


def decompositions(module: ir.Module, names: Iterable[str] | None = None) -> list[str]:
    """The decompositions of composites in the functions `names`, or in any, and of composites in these, each once."""
    by_name = {symbol(function): function for function in functions(module)}
    pending = list(by_name if names is None else names)
    found: dict[str, None] = {}
    while pending:
        for op in walk(by_name[pending.pop()]):
            if op.name == CompositeOp.OPERATION_NAME and (name := op.opview.decomposition.value) not in found:
                found[name] = None
                pending.append(name)
    return list(found)
