"""Operations that are alike: equal but for the values that they read.

A deep model repeats its layers, so that few operations of a step are unlike all others. What follows from an operation
alone, whatever computes its operands, is therefore found once for all that are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dmc._mlir import ir

Fact = TypeVar("Fact")


@dataclass
class Alike:
    """Kinds of operations by their description, and facts by kind; the operations must stay until the last question."""

    _kinds: dict[Any, int] = field(default_factory=dict[Any, int])
    _facts: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def read(self, op: ir.Operation) -> tuple[int, tuple[ir.Value, ...]]:
        """The kind of an operation, and the values that it and its regions use from outside it, each once.

        Operations of one kind have equal text, but for the names of these values and for labels ("dm."), and use the
        same of them in the same places.
        """
        found = _Description()
        description = found.of(op)
        return self._kinds.setdefault(description, len(self._kinds)), tuple(found.outside)

    def fact(self, kind: int, function: Callable[..., Fact], op: ir.Operation, *arguments: Any) -> Fact:
        """`function(op, *arguments)` of an operation of this kind; the function reads only what describes the kind."""
        key = function, kind, arguments
        if key not in self._facts:
            self._facts[key] = function(op, *arguments)
        return self._facts[key]


@dataclass
class _Description:
    """outside: the values that are used, but not made, by the operations described so far."""

    outside: list[ir.Value] = field(default_factory=list[ir.Value])
    numbers: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])

    def of(self, op: ir.Operation, is_inside: bool = False) -> tuple[Any, ...]:
        numbers, before = self.numbers, len(self.outside)
        used = tuple([self._used(value) for value in op.operands])
        types = tuple([value.type for value in self.outside[before:]])
        attributes = tuple([each for each in op.attributes.items() if is_inside or not each[0].startswith("dm.")])
        made: list[ir.Type] = []
        for result in op.results:
            numbers[result] = len(numbers)
            made.append(result.type)
        regions = [self._region(region) for region in op.regions]
        return op.name, used, types, attributes, tuple(made), *regions

    def _used(self, value: ir.Value) -> int:
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.numbers)
            self.outside.append(value)
        return number

    def _region(self, region: ir.Region) -> tuple[Any, ...]:
        blocks: list[tuple[Any, ...]] = []
        for block in region:
            taken: list[ir.Type] = []
            for argument in block.arguments:
                self.numbers[argument] = len(self.numbers)
                taken.append(argument.type)
            blocks.append((tuple(taken), *[self.of(view.operation, True) for view in block.operations]))
        return tuple(blocks)
