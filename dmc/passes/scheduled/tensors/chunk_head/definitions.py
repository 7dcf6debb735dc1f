"""Decompositions of composites, for a piece of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc._mlir import func, ir
from dmc.passes.shared.local_ops import retype
from dmc.passes.shared.smaller_functions import Ends, shrink


@dataclass(frozen=True)
class Definitions:
    """Creates the decompositions of composites on one of `count` pieces, each once."""

    module: ir.Module
    count: int
    made: dict[str, str] = field(default_factory=dict)

    def of(self, composite: ir.Operation, dims: Mapping[int, int], along: Mapping[int, int]) -> ir.Attribute:
        """The name of that of a composite, of which these operands and results are pieces along these dimensions."""
        name = ir.FlatSymbolRefAttr(composite.attributes["decomposition"]).value
        if name not in self.made:
            given = tuple((i, self._cuts(composite.operands[i], {i: dim}, i)) for i, dim in dims.items())
            results = tuple(self._cuts(each, along, i) for i, each in enumerate(composite.results))
            self.made[name] = self._make(name, (given, results))
        return ir.FlatSymbolRefAttr.get(self.made[name])

    def _cuts(self, value: ir.Value, dims: Mapping[int, int], index: int) -> tuple[int, ...]:
        return tuple(self.count if dims.get(index) == dim else 1 for dim in range(len(value.type.shape)))

    def _make(self, name: str, ends: Ends) -> str:
        symbols = ir.SymbolTable(self.module.operation)
        whole = symbols[name]
        with whole.location, ir.InsertionPoint.after(whole):
            copy = whole.operation.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(f"{name}_chunk")
        chosen = symbols.insert(copy).value
        function = copy.opview
        assert isinstance(function, func.FuncOp)
        shrink(function, ends)
        retype(function)
        return chosen
