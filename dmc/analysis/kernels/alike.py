"""Operations that are alike: equal but for the values that they read.

A deep model repeats its layers, so that few operations of a step are unlike all others. What follows from an operation
alone, whatever computes its operands, is therefore found once for all that are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dmc._mlir import ir
from dmc.memo import Memo

Fact = TypeVar("Fact")

# Between the words of a description; no operation has such a name.
_MAKES, _REGION, _BLOCK, _END = "->", "{", "^", "}"


@dataclass
class Alike:
    """Kinds of operations by their description, and facts by kind; the operations must stay until the last question."""

    _kinds: dict[Any, int] = field(default_factory=dict[Any, int])
    _facts: Memo[Any, Any] = field(default_factory=Memo[Any, Any])

    def read(self, op: ir.Operation) -> tuple[int, tuple[ir.Value, ...]]:
        """The kind of an operation, and the values that it and its regions use from outside it, each once.

        Operations of one kind have equal text, but for the names of these values and for labels ("dm."), and use the
        same of them in the same places.
        """
        found = _Description()
        found.add(op)
        return self._kinds.setdefault(tuple(found.words), len(self._kinds)), tuple(found.outside)

    def fact(self, kind: int, function: Callable[..., Fact], op: ir.Operation, *arguments: Any) -> Fact:
        """`function(op, *arguments)` of an operation of this kind; the function reads only what describes the kind."""
        return self._facts.of((function, kind, arguments), function, op, *arguments)


@dataclass
class _Description:
    """words: what was added so far, as one list, which is quicker to compare than a tree. outside: the values that are
    used, but not made, by these operations."""

    words: list[Any] = field(default_factory=list[Any])
    outside: list[ir.Value] = field(default_factory=list[ir.Value])
    numbers: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])

    def add(self, op: ir.Operation, is_inside: bool = False) -> None:
        words, numbers = self.words, self.numbers
        words.append(op.name)
        for value in op.operands:
            number = numbers.get(value)
            if number is None:
                # The next number, so that a type behind it is expected.
                number = numbers[value] = len(numbers)
                self.outside.append(value)
                words += number, value.type
            else:
                words.append(number)
        attributes = op.attributes.items()
        words += attributes if is_inside else [each for each in attributes if not each[0].startswith("dm.")]
        words.append(_MAKES)
        for result in op.results:
            numbers[result] = len(numbers)
            words.append(result.type)
        for region in op.regions:
            self._add_region(region)

    def _add_region(self, region: ir.Region) -> None:
        words, numbers = self.words, self.numbers
        words.append(_REGION)
        for block in region:
            words.append(_BLOCK)
            for argument in block.arguments:
                numbers[argument] = len(numbers)
                words.append(argument.type)
            for view in block.operations:
                self.add(view.operation, True)
        words.append(_END)
