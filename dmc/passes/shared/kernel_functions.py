"""The private functions that kernels of a pass run, deduplicated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.commands.jobs import KIND
from dmc.step_function import find_step


class KernelFunctions:
    """Adds functions to a module, in front of `@step`."""

    def __init__(self, module: ir.Module) -> None:
        self._step = find_step(module).operation
        self._taken = set(dm.Symbols.of(module).ops)
        self._names: dict[Any, str] = {}

    def get(
        self,
        stem: str,
        inputs: Sequence[ir.Type],
        results: Sequence[ir.Type],
        kind: str,
        body: Callable[..., list[ir.Value]],
    ) -> str:
        """The function `stem_0`, `stem_1` … of these types; the same types and stem must mean the same body.

        `body` maps arguments to results; `kind` is what dominates the time (`dm.kind`).
        """
        key = (stem, tuple(inputs), tuple(results))
        if key not in self._names:
            self._names[key] = self._fresh(stem)
            self._build(self._names[key], ir.FunctionType.get(list(inputs), list(results)), kind, body)
        return self._names[key]

    def _build(self, name: str, type_: ir.FunctionType, kind: str, body: Callable[..., list[ir.Value]]) -> None:
        with ir.InsertionPoint(self._step):
            function = func.FuncOp(name, type_, visibility="private")
        function.operation.attributes[KIND] = ir.StringAttr.get(kind)
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp(body(*function.entry_block.arguments))

    def _fresh(self, stem: str) -> str:
        number = 0
        while f"{stem}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{stem}_{number}")
        return f"{stem}_{number}"
