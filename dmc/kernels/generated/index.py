"""The index of an element, as an integer expression of a kernel's variables that simplifies given known sizes.

An index into 16 × 1024 × 768 that is flattened and split again is the same index: reshapes, which are divisions and
remainders, cost nothing where they cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Variable:
    """An integer from 0 to `size` - 1: the index of a tile element, a loop or a program."""

    name: str
    size: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        return 0, self.size - 1

    @property
    def variables(self) -> frozenset[str]:
        """The names of the variables that it depends on."""
        return frozenset((self.name,))


@dataclass(frozen=True)
class Looked:
    """An integer read from memory, by its name."""

    name: str
    bounds: tuple[int, int]
    variables: frozenset[str]


@dataclass(frozen=True)
class _Nested:
    """What is made of another index."""

    of: Index

    @property
    def variables(self) -> frozenset[str]:
        """The names of the variables that it depends on."""
        return self.of.variables


@dataclass(frozen=True)
class Quotient(_Nested):
    """`of` ÷ `by`, rounded down."""

    by: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        low, high = self.of.bounds
        return low // self.by, high // self.by


@dataclass(frozen=True)
class Remainder(_Nested):
    """`of` modulo `by`."""

    by: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        return 0, self.by - 1


@dataclass(frozen=True)
class Within(_Nested):
    """`of`, where it is from 0 to `size` - 1; what is made of it elsewhere is not read."""

    size: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value."""
        return 0, self.size - 1


Atom = Variable | Looked | Quotient | Remainder | Within


@dataclass(frozen=True)
class Index:
    """A sum of atoms, each times a factor that is not 0, and a constant."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    def __hash__(self) -> int:
        return self._key

    @cached_property
    def _key(self) -> int:
        # Expressions nest; each is hashed once.
        return hash((self.terms, self.constant))

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest possible value."""
        ends = [sorted((factor * atom.bounds[0], factor * atom.bounds[1])) for atom, factor in self.terms]
        return self.constant + sum(low for low, _ in ends), self.constant + sum(high for _, high in ends)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of the variables that it depends on."""
        return frozenset(name for atom, _ in self.terms for name in atom.variables)

    def is_computed(self) -> bool:
        """Whether no term was read from memory."""
        atoms = [atom for atom, _ in self.terms]
        nested = [atom.of for atom in atoms if isinstance(atom, _Nested)]
        return not any(isinstance(atom, Looked) for atom in atoms) and all(each.is_computed() for each in nested)

    def at(self, value: int) -> int:
        """The value of the expression for these values of the variables."""
        return self.constant + sum(factor * _at(atom, value) for atom, factor in self.terms)

    def __add__(self, other: Index | int) -> Index:
        other = Index(constant=other) if isinstance(other, int) else other
        factors: dict[Atom, int] = dict(self.terms)
        for atom, factor in other.terms:
            factors[atom] = factors.get(atom, 0) + factor
        return _sum(factors, self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return ZERO
        return Index(tuple((atom, own * factor) for atom, own in self.terms), self.constant * factor)

    def __floordiv__(self, by: int) -> Index:
        whole, rest = self._split(by)
        low, high = rest.bounds
        if low // by == high // by:
            return whole + low // by
        for size in _common(rest, by):
            large, small = rest._split(size)
            if small.bounds[0] >= 0 and small.bounds[1] < size:
                return whole + large // (by // size)
        return whole + _quotient(rest, by)

    def __mod__(self, by: int) -> Index:
        _, rest = self._split(by)
        low, high = rest.bounds
        if low // by == high // by:
            return rest + -by * (low // by)
        for size in _common(rest, by):
            large, small = rest._split(size)
            if small.bounds[0] >= 0 and small.bounds[1] < size:
                return (large % (by // size)) * size + small
        return _remainder(rest, by)

    def _split(self, by: int) -> tuple[Index, Index]:
        """q and r with self = q · by + r, where r has the terms not divisible by `by`, and a constant below it."""
        divided = tuple((atom, factor // by) for atom, factor in self.terms if factor % by == 0)
        rest = tuple((atom, factor) for atom, factor in self.terms if factor % by)
        return Index(divided, self.constant // by), Index(rest, self.constant % by)


ZERO = Index()


def constant(value: int) -> Index:
    """The constant expression `value`."""
    return Index(constant=value)


def variable(name: str, size: int) -> Index:
    """The variable of this name; if it has a single value, that constant."""
    return Index(((Variable(name, size), 1),)) if size > 1 else ZERO


def within(place: Index, size: int) -> Index:
    """The expression `place` where it is from 0 to `size` - 1, and so simplifies; elsewhere, it may be anything."""
    low, high = place.bounds
    if size == 1:
        return ZERO
    return place if low >= 0 and high < size else Index(((Within(place, size), 1),))


def linearise(places: Sequence[Index], shape: Sequence[int]) -> Index:
    """The linear index of an element of a contiguous tensor."""
    total = ZERO
    for place, size in zip(places, shape, strict=True):
        total = total * size + place
    return total


def delinearise(number: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The index of element `number` in each dimension."""
    places: list[Index] = []
    step = math.prod(shape)
    for i, size in enumerate(shape):
        step //= max(size, 1)
        place = number // step
        # The first non-trivial dimension needs no remainder: no index is out of range.
        places.append(place % size if any(each > 1 for each in shape[:i]) else place if size > 1 else ZERO)
    return tuple(places)


def _at(atom: Atom, value: int) -> int:
    match atom:
        case Quotient(of=of, by=by):
            return of.at(value) // by
        case Remainder(of=of, by=by):
            return of.at(value) % by
        case Within(of=of):
            return of.at(value)
        case Variable():
            return value
        case Looked():
            raise AssertionError("a value read from memory is not known")


def _common(rest: Index, by: int) -> Iterable[int]:
    """The sizes, largest first, that divide part of the terms and `by`."""
    sizes = {math.gcd(factor, by) for _, factor in rest.terms}
    return sorted((size for size in sizes if 1 < size < by), reverse=True)


def _quotient(rest: Index, by: int) -> Index:
    match rest:
        case Index(terms=((Quotient(of=of, by=first), 1),), constant=0):
            return of // (first * by)
        case Index(terms=((Remainder(of=of, by=size), 1),), constant=0) if size % by == 0:
            return (of // by) % (size // by)
        case _:
            shifted, lost = _without_sign(rest, by)
            return Index(((Quotient(shifted, by), 1),), lost)


def _remainder(rest: Index, by: int) -> Index:
    match rest:
        case Index(terms=((Remainder(of=of, by=size), 1),), constant=0) if size % by == 0:
            return of % by
        case _:
            shifted, _ = _without_sign(rest, by)
            return Index(((Remainder(shifted, by), 1),))


def _without_sign(rest: Index, by: int) -> tuple[Index, int]:
    """r and q with rest = r + q · by, where r is never negative: a GPU rounds quotients towards zero."""
    lost = min(0, rest.bounds[0] // by)
    return Index(rest.terms, rest.constant - lost * by), lost


def _sum(factors: dict[Atom, int], start: int) -> Index:
    """The sum, with matching quotients and remainders recombined."""
    for atom, factor in list(factors.items()):
        if factor and isinstance(atom, Remainder) and (joined := _joined(atom, factor, factors)):
            return _sum({each: own for each, own in factors.items() if own}, start) + joined
    kept = ((atom, factor) for atom, factor in factors.items() if factor)
    return Index(tuple(sorted(kept, key=lambda term: (-abs(term[1]), repr(term[0])))), start)


def _joined(low: Remainder, factor: int, factors: dict[Atom, int]) -> Index | None:
    """`low` · factor with its matching quotient or higher remainder; removes both from `factors`."""
    for high, own in factors.items():
        if own != factor * low.by:
            continue
        if high == Quotient(low.of, low.by):
            factors[low] = factors[high] = 0
            return low.of * factor
        if isinstance(high, Remainder) and high.of == low.of // low.by:
            factors[low] = factors[high] = 0
            return (low.of % (low.by * high.by)) * factor
    return None
