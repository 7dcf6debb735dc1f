"""What a kernel computes: a kind of composite with the types of its operands and results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

from dmc.program.sizes import element_bytes

Parameter = bool | int | float | str
Operand = TypeVar("Operand")

# At most this many types are listed in a message.
_SHOWN = 8


@dataclass(frozen=True)
class TensorType:
    """`dtype`: MLIR's name; i1 takes a byte. strides: in elements, of a view that is not contiguous."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes of its elements in memory."""
        return self.elements * element_bytes(self.dtype)

    def steps(self) -> tuple[int, ...]:
        """The strides, including those of a contiguous tensor."""
        return self.strides or tuple(math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape)))

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.dtype])


@dataclass(frozen=True)
class Problem:
    """`kind`: the composite's name; operands, results and parameters are those of its schema, optional ones omitted;
    operands behind these are the places of a rank's part in the whole.

    Parameters beyond the schema describe fused operations; their family documents them.
    """

    kind: str
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    parameters: tuple[tuple[str, Parameter], ...] = ()

    def get(self, name: str, default: Parameter) -> Parameter:
        """The parameter `name`, else `default`."""
        return dict(self.parameters).get(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        """The parameter `name` as a float."""
        return float(self.get(name, default))

    def apart(self, operands: tuple[Operand, ...]) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """The `operands` of the composite's schema, and those behind them that only a rank's part has.

        The latter say of which of the `whole_0` iterations of a first loop, `whole_1` of a second … the part consists.
        """
        end = len(operands) - sum(name.startswith("whole_") for name, _ in self.parameters)
        return operands[:end], operands[end:]

    def __str__(self) -> str:
        types = f"{_listed(self.operands)} -> {_listed(self.results)}"
        settings = ", ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.kind}({types}; {settings})"


def _listed(tensors: tuple[TensorType, ...]) -> str:
    shown = [str(tensor) for tensor in tensors[:_SHOWN]]
    return ", ".join([*shown, f"… ({len(tensors)})"] if len(tensors) > _SHOWN else shown)


@dataclass(frozen=True)
class Cost:
    """A lower bound of a problem's cost: floating-point operations, and bytes that must move once."""

    flops: int
    bytes: int


def problem(
    kind: str, operands: tuple[TensorType, ...], results: tuple[TensorType, ...], **parameters: Parameter
) -> Problem:
    """A problem with its parameters in the order of their names, so that equal problems are equal."""
    return Problem(kind, operands, results, tuple(sorted(parameters.items())))


def moved_once(problem: Problem) -> int:
    """The bytes of all operands and results."""
    return sum(tensor.bytes for tensor in (*problem.operands, *problem.results))
