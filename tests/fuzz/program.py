"""A program as data: leaves, lines that compute, and how it is trained; printed as a module that anybody can run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tests.fuzz import values

Role = Literal["parameter", "buffer", "input"]
Number = float | int | bool
PREFIXES: dict[Role, str] = {"parameter": "self.p", "buffer": "self.b", "input": "x"}


@dataclass(frozen=True)
class Leaf:
    """A tensor that a program starts from. layout: how it lies in memory, a function of `tests.fuzz.values`."""

    name: str
    role: Role
    dtype: str
    shape: tuple[int, ...]
    values: tuple[Number, ...]
    layout: str = "plain"

    def text(self) -> str:
        """The expression that makes it."""
        numbers = ", ".join(map(_number, self.values))
        return f"{self.layout}([{numbers}], {self.shape}, torch.{self.dtype})"


@dataclass(frozen=True)
class Line:
    """One statement. `text` has a hole `{0}`, `{1}` … for each operand; `target` names the results it binds, if any.

    operator: the entry of the table that it comes from. unpacks: whether it gives a sequence of tensors.
    """

    operator: str
    text: str
    operands: tuple[str, ...]
    targets: tuple[str, ...]
    unpacks: bool = False
    no_grad: bool = False

    def statement(self) -> str:
        """The line as Python."""
        body, names = self.text.format(*self.operands), ", ".join(self.targets)
        if not names:
            return body
        return f"[{names}] = {body}" if self.unpacks else f"{names} = {body}"


@dataclass(frozen=True)
class Program:
    """A training step. losses: the values that the loss adds up; outputs: those that are given back beside it.

    optimizer: an expression of `dmc.optim`.
    """

    leaves: tuple[Leaf, ...]
    lines: tuple[Line, ...]
    losses: tuple[str, ...]
    outputs: tuple[str, ...]
    optimizer: str = "dmc.optim.SGD(lr=0.125)"

    def operators(self) -> tuple[str, ...]:
        """The operators that it uses, each once."""
        return tuple(dict.fromkeys(line.operator for line in self.lines))

    def of(self, role: Role) -> tuple[Leaf, ...]:
        """Its leaves of a role."""
        return tuple(leaf for leaf in self.leaves if leaf.role == role)


def source(program: Program, title: str = "A random step.", mode: str = "") -> str:
    """`program` as a file that defines `Step` (a module), `INPUTS` and `OPTIMIZER`, and the `MODE` if one is given."""
    inputs = program.of("input")
    arguments = "".join(f", {leaf.name}: Tensor" for leaf in inputs)
    lines = [
        "class Step(nn.Module):",
        *(f"    {leaf.name.removeprefix('self.')}: Tensor" for leaf in program.of("buffer")),
        "",
        "    def __init__(self) -> None:",
        "        super().__init__()",
        *(f"        {line}" for line in map(_registered, program.leaves) if line),
        "",
        f"    def forward(self{arguments}) -> tuple[Tensor, list[Tensor]]:",
        *(f"        {line}" for line in _body(program)),
        "",
        "",
        f"INPUTS = ({''.join(f'{leaf.text()}, ' for leaf in inputs)})",
        f"OPTIMIZER = {program.optimizer}",
        *((f"MODE = {mode}",) if mode else ()),
    ]
    text = "\n".join(lines)
    return f'"""{title}"""\n\n{_imports(text)}\n\n\n{text}\n'


def _imports(text: str) -> str:
    """The imports of a file that goes on with `text`."""
    helpers = [name for name in values.__all__ if f"{name}(" in text]
    return "\n".join(
        [
            "from __future__ import annotations",
            "",
            "import torch",
            "from torch import Tensor, nn",
            "",
            "import dmc",
            *(("from tests.fuzz.train import Mode",) if "Mode(" in text else ()),
            f"from tests.fuzz.values import {', '.join(helpers)}",
        ]
    )


def _registered(leaf: Leaf) -> str:
    name = leaf.name.removeprefix("self.")
    match leaf.role:
        case "parameter":
            return f"self.{name} = nn.Parameter({leaf.text()})"
        case "buffer":
            return f'self.register_buffer("{name}", {leaf.text()})'
        case "input":
            return ""


def _body(program: Program) -> list[str]:
    lines: list[str] = []
    for line in program.lines:
        lines += ["with torch.no_grad():"] if line.no_grad else []
        lines.append(f"{'    ' if line.no_grad else ''}{line.statement()}")
    lines.append(f"loss = {' + '.join(f'weighed({name})' for name in program.losses)}")
    return [*lines, f"return loss, [{', '.join(program.outputs)}]"]


def _number(value: Number) -> str:
    return repr(value) if isinstance(value, bool | int) or math.isfinite(value) else f'float("{value}")'
