"""A value in a generated kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dmc.dtypes import DTYPES, is_floating
from dmc.kernels.generated.index import Index

Bounds = tuple[int, int]

# Triton's names of MLIR's types, and of those in which integers are kept.
TRITON = {each.name: f"tl.{each.triton}" for each in DTYPES if each.triton} | {"u32": "tl.uint32", "u64": "tl.uint64"}
# The types in which integers are kept, narrowest first.
_HELD: tuple[tuple[str, Bounds], ...] = (("i32", (-(2**31), 2**31 - 1)), ("u32", (0, 2**32 - 1)))
BITS = {"index": 64} | {each.name: int(each.name[1:]) for each in DTYPES if each.name.startswith("i")}


class Declined(Exception):
    """A region that is not supported, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Value:
    """text: a name, or a literal. dtype: MLIR's name of its type. held: its type in the kernel.

    variables: those that it depends on, which are the tile axes along which it varies. constant: its value if known.
    bounds: the least and the largest value of an integer; index: the integer as an expression.
    """

    text: str
    dtype: str
    held: str
    variables: frozenset[str] = frozenset()
    constant: int | float | bool | None = None
    bounds: Bounds | None = None
    index: Index | None = None


def literal(value: int | float | bool, dtype: str) -> Value:
    """A constant."""
    if is_floating(dtype):
        text = repr(float(value))
        return Value(text if text[-1].isdigit() else f'float("{text}")', dtype, dtype, constant=float(value))
    if dtype == "i1":
        return Value(str(bool(value)), dtype, dtype, constant=bool(value), bounds=(int(value), int(value)))
    bounds = (int(value), int(value))
    return Value(str(int(value)), dtype, held_for(dtype, bounds), constant=int(value), bounds=bounds)


def limits(dtype: str) -> Bounds:
    """The least and the largest value of an integer type."""
    bits = BITS[dtype]
    return (0, 1) if bits == 1 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def held_for(dtype: str, *bounds: Bounds | None) -> str:
    """The narrowest type that can hold integers with these bounds, of MLIR's type `dtype`."""
    if dtype == "i1":
        return "i1"
    known = [limits(dtype) if each is None else each for each in bounds]
    low, high = min(low for low, _ in known), max(high for _, high in known)
    return next((held for held, (first, last) in _HELD if first <= low and high <= last), "i64")


def variables_of(values: Iterable[Value]) -> frozenset[str]:
    """The variables that any of the values depends on."""
    return frozenset(name for value in values for name in value.variables)
