"""The values that kernels write and read, by number: fusion compares sets of them many times."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from dmc._mlir import ir
from dmc.dialect.plan import type_bytes


@dataclass(frozen=True)
class _Size:
    bytes: int
    elements: int
    is_float: bool

    @staticmethod
    def of(type_: ir.Type) -> _Size:
        if not isinstance(type_, ir.RankedTensorType):
            return _Size(0, 1, False)  # a scalar is not in memory
        element = type_.element_type
        # Some arithmetic on integers is left to IREE.
        is_float = isinstance(element, ir.FloatType) or element == ir.IntegerType.get_signless(1)
        return _Size(type_bytes(type_), prod(type_.shape), is_float)


@dataclass
class Traded:
    """bytes, elements: of each value. is_float: whether its elements are floating-point numbers or truth values."""

    bytes: list[int] = field(default_factory=list[int])
    elements: list[int] = field(default_factory=list[int])
    is_float: list[bool] = field(default_factory=list[bool])
    _numbers: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    _sizes: dict[ir.Type, _Size] = field(default_factory=dict[ir.Type, _Size])

    def number(self, value: ir.Value) -> int:
        """The number of a value."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self._numbers)
            type_ = value.type
            if (size := self._sizes.get(type_)) is None:
                size = self._sizes[type_] = _Size.of(type_)
            self.bytes.append(size.bytes)
            self.elements.append(size.elements)
            self.is_float.append(size.is_float)
        return number
