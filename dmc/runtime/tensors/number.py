"""A value that is a Python number where it can be one."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Generic, TypeVar

Value = TypeVar("Value", float, int, bool)
# Another number, of this kind or of Python's.
Other = Any


class Number(Generic[Value]):
    """Arithmetic, comparison, rounding and formatting of `item()`, each of which waits for it.

    Results are Python numbers. What asks for the type itself, as `json.dumps` and `isinstance(x, float)` do, needs
    `float(x)`.
    """

    @abstractmethod
    def item(self) -> Value:
        """The Python number."""

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __hash__(self) -> int:
        return hash(self.item())

    def __str__(self) -> str:
        return str(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)

    def __eq__(self, other: object) -> bool:
        return self.item() == _plain(other)

    def __lt__(self, other: Other) -> bool:
        return self.item() < _plain(other)

    def __le__(self, other: Other) -> bool:
        return self.item() <= _plain(other)

    def __gt__(self, other: Other) -> bool:
        return self.item() > _plain(other)

    def __ge__(self, other: Other) -> bool:
        return self.item() >= _plain(other)

    def __add__(self, other: Other) -> Any:
        return self.item() + _plain(other)

    def __radd__(self, other: Other) -> Any:
        return other + self.item()

    def __sub__(self, other: Other) -> Any:
        return self.item() - _plain(other)

    def __rsub__(self, other: Other) -> Any:
        return other - self.item()

    def __mul__(self, other: Other) -> Any:
        return self.item() * _plain(other)

    def __rmul__(self, other: Other) -> Any:
        return other * self.item()

    def __truediv__(self, other: Other) -> Any:
        return self.item() / _plain(other)

    def __rtruediv__(self, other: Other) -> Any:
        return other / self.item()

    def __floordiv__(self, other: Other) -> Any:
        return self.item() // _plain(other)

    def __rfloordiv__(self, other: Other) -> Any:
        return other // self.item()

    def __mod__(self, other: Other) -> Any:
        return self.item() % _plain(other)

    def __rmod__(self, other: Other) -> Any:
        return other % self.item()

    def __pow__(self, other: Other) -> Any:
        return self.item() ** _plain(other)

    def __rpow__(self, other: Other) -> Any:
        return other ** self.item()

    def __neg__(self) -> Any:
        return -self.item()

    def __pos__(self) -> Any:
        return +self.item()

    def __abs__(self) -> Any:
        return abs(self.item())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.item(), digits)

    def __trunc__(self) -> int:
        return math.trunc(self.item())

    def __floor__(self) -> int:
        return math.floor(self.item())

    def __ceil__(self) -> int:
        return math.ceil(self.item())


def _plain(other: Any) -> Any:
    return other.item() if isinstance(other, Number) else other  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
