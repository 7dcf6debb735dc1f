"""Where an element of a factor lies in memory, and where it is zero instead: padding, and gaps between elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmc.dtypes import NARROW
from dmc.kernels.generated.emitter import Emitter, Unbound
from dmc.kernels.generated.index import Index, Quotient, Remainder, Within, linearise
from dmc.kernels.generated.launch import stem_of
from dmc.kernels.generated.operations import Places
from dmc.kernels.generated.value import Declined, Value
from dmc.kernels.generated.writer import Writer
from dmc.kernels.recipe import Buffer


@dataclass(frozen=True)
class Range:
    """The condition that `place` is at least `low` and below `high`."""

    place: Index
    low: int
    high: int

    def opened(self) -> Range:
        """The same, provided that the conditions on what it is made of hold, too."""
        return Range(_opened(self.place), self.low, self.high)


@dataclass(frozen=True)
class Element:
    """Element `number` of tensor `value` where all `ranges` hold; elsewhere zero."""

    value: Any
    number: Index
    ranges: tuple[Range, ...]


def element_of(factor: tuple[Any, Places], memory: dict[Any, Buffer]) -> Element | None:
    """The element of 16 bits that a factor is at some places; None for what is computed, or padded with another
    number."""
    probe = _Probe(Writer(), {value: stem_of(buffer) for value, buffer in memory.items()})
    try:
        made = probe.emit(*factor)
    except (Unbound, Declined):
        return None
    made = probe.unwidened(made)
    if len(probe.loads) != 1 or made.held not in NARROW or not probe.is_loaded(made):
        return None
    return Element(*probe.loads[0], tuple(dict.fromkeys(probe.needed)))


class _Probe(Emitter):
    """Follows an element to memory. needed: the conditions without which it is zero."""

    def __init__(self, writer: Writer, memory: dict[Any, str]) -> None:
        super().__init__(writer, memory)
        self.ranges: dict[str, tuple[Range, ...]] = {}
        self.needed: list[Range] = []

    def unwidened(self, value: Value) -> Value:
        """What was widened to `value`, or itself."""
        return self.writer.widened.get(value.text, value)

    def is_loaded(self, value: Value) -> bool:
        """Whether a value is an element of memory, unchanged."""
        return value.text in self.memory.values()

    def load(self, value: Any, places: Places) -> Value:
        """An element in memory, wherever its conditions hold."""
        number, dtype = linearise(places, value.type.shape), str(value.type.element_type)
        self.loads.append((value, number))
        return Value(self.memory[value], dtype, dtype, number.variables)

    def inside(self, place: Index, low: int, high: int) -> Value:
        """Notes what the condition says."""
        made = super().inside(place, low, high)
        if made.constant is None:
            self.ranges[made.text] = (Range(place, low, high),)
        return made

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Notes what the conditions say together."""
        made = super().all_of(conditions)
        if made.constant is None:
            parts = [self.ranges[each.text] for each in conditions if each.constant is None]
            self.ranges[made.text] = tuple(each for part in parts for each in part)
        return made

    def choose(self, condition: Value, first: Value, second: Value) -> Value:
        """The first value, where it is not zero."""
        if condition.constant is not None:
            return first if condition.constant else second
        is_known = condition.text in self.ranges and second.constant == 0
        if not is_known or not self.is_loaded(self.unwidened(first)):
            raise Declined("a factor that is computed")
        self.needed += self.ranges[condition.text]
        return first


def _opened(index: Index) -> Index:
    """The expression without `Within`."""
    total = Index(constant=index.constant)
    for atom, factor in index.terms:
        match atom:
            case Within(of=of):
                made = _opened(of)
            case Quotient(of=of, by=by):
                made = _opened(of) // by
            case Remainder(of=of, by=by):
                made = _opened(of) % by
            case _:
                made = Index(((atom, 1),))
        total += made * factor
    return total
