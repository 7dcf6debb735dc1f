"""Ways to break a job that has been accepted, each with the properties of which one must refuse the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from dmc.program import Job

Change = Callable[[Job, Random], Job | None]

# Orders between lanes that are missing: a race, a borrow broken, a value lost, or two communicators at once.
UNORDERED = frozenset({"V2", "V5b", "V6", "V7"})


@dataclass(frozen=True)
class Mutator:
    """`change` gives a broken job, or None where the job has nothing to break in this way."""

    name: str
    change: Change
    refused_by: frozenset[str]


MUTATORS: list[Mutator] = []


def mutator(*refused_by: str | Iterable[str]) -> Callable[[Change], Change]:
    """Adds the decorated function to `MUTATORS`; its results must be refused by one of these properties."""
    expected = frozenset(name for each in refused_by for name in ([each] if isinstance(each, str) else each))

    def add(change: Change) -> Change:
        MUTATORS.append(Mutator(change.__name__, change, expected))
        return change

    return add
