"""Draws programs. Each line is run in eager at once, so that shapes fit and what PyTorch refuses is drawn anew."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tests.fuzz import leaves, values
from tests.fuzz.constants import constant
from tests.fuzz.operators import EVERY, EXPRESSIONS, HOLE, STATEMENTS, of_turn
from tests.fuzz.program import Leaf, Line, Program
from tests.random_text import Choose

OPTIMIZERS = (
    *["SGD(lr=0.125)"] * 6,
    "SGD(lr=0.125, momentum=0.5)",
    "SGD(lr=0.125, momentum=0.5, nesterov=True, weight_decay=0.25)",
    "SGD(lr=0.125, momentum=0.5, dampening=0.25)",
    "SGD(lr=0.125, clip_grad_norm=1.0)",
    "Adam(lr=0.125, eps=0.125)",
    "Adam(lr=0.125, betas=(0.5, 0.75), eps=0.125, weight_decay=0.25)",
    "AdamW(lr=0.125, eps=0.125, weight_decay=0.25)",
)
LARGEST = 300  # elements of a tensor
MOST_RESULTS = 4
# How often another operator, and other operands for it, are drawn for one line.
OPERATORS, OPERANDS = 12, 12
ATTEMPTS = 400
STATEMENT_SHARE = 5  # one line in …


class Misfit(Exception):
    """What was drawn is not a program: nothing fits a hole, or eager refuses it."""


def generate(choose: Choose, wanted: str | None = None) -> Program:
    """A program that eager trains for a step; one of its lines is of the operator `wanted`.

    Raises Misfit if no such program is drawn in a few hundred.
    """
    for _ in range(ATTEMPTS):
        builder = Builder(choose)
        if builder.draw(wanted) and is_valid(program := builder.program()):
            return program
    raise Misfit(f"no program with {wanted}")


def drawn(seed: int) -> Program:
    """The program of a seed."""
    return generate(random.Random(seed).randrange, of_turn(seed))


def is_valid(program: Program) -> bool:
    """Whether eager runs it forward and backward: what is changed in place may be needed by a gradient."""
    try:
        namespace = Namespace(program.leaves)
        for line in program.lines:
            namespace.run(line)
        total = sum(values.weighed(namespace.value(name)) for name in program.losses)
        assert isinstance(total, Tensor)
        total.backward()
    except REFUSALS:
        return False
    return True


# What PyTorch raises for operands that do not fit.
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, ZeroDivisionError, AssertionError)


class Namespace:
    """What the lines of a program see, and the values that they have given so far."""

    def __init__(self, given: Sequence[Leaf]) -> None:
        self.module = torch.nn.Module()
        self.names: dict[str, Any] = {"self": self.module, "torch": torch, "nn": torch.nn}
        self.names |= {name: getattr(values, name) for name in values.__all__}
        for leaf in given:
            self.add(leaf)

    def add(self, leaf: Leaf) -> None:
        """Makes a leaf."""
        tensor = eval(leaf.text(), self.names)
        match leaf.role:
            case "parameter":
                setattr(self.module, leaf.name.removeprefix("self."), torch.nn.Parameter(tensor))
            case "buffer":
                self.module.register_buffer(leaf.name.removeprefix("self."), tensor)
            case "input":
                self.names[leaf.name] = tensor

    def run(self, line: Line) -> None:
        """Runs a line."""
        with warnings.catch_warnings(), torch.set_grad_enabled(not line.no_grad):
            warnings.simplefilter("ignore")
            exec(line.statement(), self.names)

    def value(self, name: str) -> Tensor:
        """The tensor that has a name."""
        own = name.startswith("self.")
        return getattr(self.module, name.removeprefix("self.")) if own else self.names[name]


@dataclass
class Builder:
    """A program under construction; `names` are those of its values."""

    choose: Choose
    leaves: list[Leaf] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def draw(self, wanted: str | None) -> bool:
        """Draws the leaves, then the lines; gives whether one of operator `wanted` could be."""
        self.leaves = leaves.draw(self.choose)
        self.names = [leaf.name for leaf in self.leaves]
        self.namespace = Namespace(self.leaves)
        before, after = (min(self.choose(6), self.choose(6)) for _ in range(2))
        for _ in range(before):
            self._line()
        if wanted is not None and not self._has_line(wanted):
            return False
        for _ in range(after if wanted is not None else 1 + after):
            self._line()
        return True

    def program(self) -> Program:
        """What was drawn, with unused values, and a few others, as its results."""
        read = {name for line in self.lines for name in line.operands if line.targets}
        results = [name for line in self.lines for name in line.targets if name.startswith("v")]
        results = list(dict.fromkeys(results))
        shown = [name for name in results if name not in read or not self.choose(4)]
        losses = [name for name in shown if self._is_trained(name)]
        optimizer = OPTIMIZERS[self.choose(len(OPTIMIZERS))]
        return Program(
            tuple(self.leaves), tuple(self.lines), ("self.p0", *losses), tuple(shown), f"dmc.optim.{optimizer}"
        )

    def _is_trained(self, name: str) -> bool:
        value = self.namespace.value(name)
        return value.is_floating_point() and value.requires_grad

    def _line(self) -> None:
        for _ in range(OPERATORS):
            table = EXPRESSIONS if self.choose(STATEMENT_SHARE) else STATEMENTS
            if self._has_line(list(table)[self.choose(len(table))]):
                return

    def _has_line(self, operator: str) -> bool:
        """Whether a line of an operator could be added."""
        return any(self._try(operator, EVERY[operator]) for _ in range(OPERANDS))

    def _try(self, operator: str, template: str) -> bool:
        """Whether a line from `template` could be added."""
        try:
            self._add(operator, template)
        except (Misfit, *REFUSALS):
            return False
        return True

    def _add(self, operator: str, template: str) -> None:
        operands: list[str] = []
        text = HOLE.sub(lambda hole: self._filled(hole[1], hole[2], operands), template)
        if operator in STATEMENTS:
            line = Line(operator, text, tuple(operands), (), no_grad=self._is_without_gradients(operands))
            self.namespace.run(line)
        else:
            line = self._bound(Line(operator, text, tuple(operands), (), no_grad=not self.choose(12)))
        self.lines.append(line)
        self.names += line.targets

    def _is_without_gradients(self, operands: Sequence[str]) -> bool:
        """Whether a statement stands under `no_grad`: one that writes a gradient's history into the state must."""
        into_state = operands[0].startswith("self.")
        has_history = any(self.namespace.value(name).requires_grad for name in operands)
        return into_state and (has_history or not self.choose(2))

    def _bound(self, line: Line) -> Line:
        """`line` with names for its results, which it has in the namespace from now on."""
        probe = replace(line, targets=("probe",))
        self.namespace.run(probe)
        result: Any = self.namespace.names.pop("probe")
        results = [result] if isinstance(result, Tensor) else list(result)
        if not results or len(results) > MOST_RESULTS or not all(map(_is_usable, results)):
            raise Misfit("gives what no program should hold")
        first = len(self.names)
        targets = tuple(f"v{first + i}" for i in range(len(results)))
        self.namespace.names |= zip(targets, results, strict=True)
        return replace(line, targets=targets, unpacks=result is not results[0])

    def _filled(self, operand: str | None, kind: str | None, operands: list[str]) -> str:
        """The text for a hole, either an operand or a constant of a kind."""
        first = self.namespace.value(operands[0]) if operands else None
        if operand is None:
            assert kind is not None
            return constant(kind, self.choose, first)
        if not operand.isdigit():
            fitting = [name for name in self.names if fits(operand, name, self.namespace.value(name), first)]
            if not fitting:
                raise Misfit(f"no {operand}")
            # Late values more often than early ones, so that lines build on each other.
            operands.append(fitting[max(self.choose(len(fitting)), self.choose(len(fitting)))])
            return f"{{{len(operands) - 1}}}"
        return f"{{{operand}}}"


def _is_usable(value: Any) -> bool:
    is_plain = isinstance(value, Tensor) and not value.is_complex() and value.dtype != torch.float64
    return is_plain and value.numel() <= LARGEST


def fits(kind: str, name: str, value: Tensor, first: Tensor | None) -> bool:
    """Whether a value may stand in a hole of a kind; `first` is the first operand, if there is one."""
    word = kind.rstrip("0123456789")
    rank = int(kind.removeprefix(word) or 0)
    return value.dim() >= rank and KINDS[word](name, value, first)


def _is_int(value: Tensor) -> bool:
    return value.dtype in (torch.int64, torch.int32, torch.int8)


def _is_number(value: Tensor) -> bool:
    return value.is_floating_point() or _is_int(value)


def _joins(value: Tensor, first: Tensor | None) -> bool:
    """Whether a value can be broadcast with the first operand."""
    sizes = [] if first is None else zip(value.shape[::-1], first.shape[::-1], strict=False)
    return all(a == b or 1 in (a, b) for a, b in sizes)


def _is_same(value: Tensor, first: Tensor | None) -> bool:
    return first is not None and value.shape == first.shape and value.dtype == first.dtype


KINDS: dict[str, Callable[[str, Tensor, Tensor | None], bool]] = {
    "any": lambda name, value, first: True,
    "float": lambda name, value, first: value.is_floating_point(),
    "int": lambda name, value, first: _is_int(value),
    "number": lambda name, value, first: _is_number(value),
    "bool": lambda name, value, first: value.dtype == torch.bool,
    "mask": lambda name, value, first: value.dtype == torch.bool and _joins(value, first),
    "index": lambda name, value, first: value.dtype == torch.int64 and bool((value >= 0).all()),
    "like": lambda name, value, first: _is_number(value) and _joins(value, first),
    "same": lambda name, value, first: _is_same(value, first),
    "own": lambda name, value, first: name.startswith("v") and value.is_floating_point(),
    "own_int": lambda name, value, first: name.startswith("v") and _is_int(value),
    "buffer": lambda name, value, first: name.startswith("self.b"),
    "parameter": lambda name, value, first: name.startswith("self.p"),
    "input": lambda name, value, first: name.startswith("x"),
}
