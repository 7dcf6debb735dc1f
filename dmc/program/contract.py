"""The memory accesses of a kernel's code, and whether each launch declares the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from dmc.errors import ProofError
from dmc.program.code import Attention, Binding, Copy, Dispatch, Fill, Place, Product, Role, Step
from dmc.program.job import Job
from dmc.program.labels import short
from dmc.program.program import Launch

Pairs = Collection[tuple[int, int]]


@dataclass(frozen=True)
class Effect:
    """The reads and writes of one command.

    ordered: the pairs (read, written) that may alias, because each element is read before it is overwritten.
    """

    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    ordered: frozenset[tuple[Place, Place]] = frozenset()

    def has(self, role: Role, index: int) -> bool:
        """Whether it reads the operand, or writes the result, of that number."""
        places = self.reads if role == "read" else self.writes
        return any((place.role, place.index) == (role, index) for place in places)


# Commands that may run concurrently; a kernel is a sequence of these.
Phase: TypeAlias = tuple[Effect, ...]


def effect_of(bindings: Sequence[Binding], ordered: Pairs) -> Effect:
    """The reads and writes of a dispatch. ordered: pairs of bindings, by index."""
    reads, writes = ([i for i, each in enumerate(bindings) if kind in each.access] for kind in "rw")
    places = [each.place for each in bindings]
    # Of hundreds of pairs in a joined kernel, often none may alias.
    known = frozenset(ordered)
    pairs = [(i, j) for i in reads for j in writes] if known else []
    loose = {(places[i], places[j]) for i, j in pairs if (i, j) not in known}
    close = {(places[i], places[j]) for i, j in pairs if (i, j) in known}
    return Effect(tuple(places[i] for i in reads), tuple(places[j] for j in writes), frozenset(close - loose))


def phases_of(steps: Iterable[Step]) -> tuple[Phase, ...]:
    """The same for a kernel's steps on a GPU, which run sequentially."""
    return tuple((_effect(step),) for step in steps)


def _effect(step: Step) -> Effect:
    match step:
        case Fill():
            return Effect((), (step.target,))
        case Copy():
            return Effect((step.source,), (step.target,))
        case Product():
            left, right, result = step.places()
            return Effect((left, right), (result, step.workspace))
        case Attention():
            q, k, v, out, logsumexp = step.places()
            return Effect((q, k, v), (out, logsumexp, step.workspace))
        case Dispatch():
            return effect_of(step.bindings, step.ordered)


def check_contracts(job: Job, kernels: Mapping[str, Sequence[Phase]]) -> None:
    """Raises ProofError for a launch of `job` that its kernel's code violates."""
    for rank, launch in job.launches():
        if (fact := _breach(kernels.get(launch.kernel), launch)) is not None:
            name = f" ({short(launch.label)})" if launch.label else ""
            where = f"rank {rank}, launch of @{launch.kernel}{name}"
            raise ProofError("V12", where, fact, "a kernel must respect its launch; please report the model")


def _breach(phases: Sequence[Phase] | None, launch: Launch) -> str | None:
    if phases is None:
        return "has no code"
    scratch = () if launch.scratch is None else (launch.scratch,)
    for j, target in enumerate(launch.writes):
        if any(target.overlaps(other) and target != other for other in launch.reads):
            return f"writes result {j} over part of an operand"
        if any(target.overlaps(other) for other in (*launch.writes[:j], *scratch)):
            return f"writes result {j} over another result or its scratch"
    if any(each.overlaps(source) for each in scratch for source in launch.reads):
        return "has scratch that overlaps an operand"
    return breach(phases, launch.reads, launch.writes, launch.scratch)


class Extent(Protocol):
    """Bytes, such as a `Range` of a rank's arena; equal ones are the same bytes."""

    @property
    def length(self) -> int:
        """How many."""
        ...


def breach(
    phases: Sequence[Phase], reads: Sequence[Extent | None], writes: Sequence[Extent | None], scratch: Extent | None
) -> str | None:
    """How the code violates a launch on these ranges; None if it does not.

    It must stay inside the ranges, not modify operands, read from results and scratch only what it has written there,
    and write every byte of every result. A result with the range of an operand must not be written while the operand is
    still needed. A dispatch that writes a buffer is assumed to write all of it.
    """
    sizes = _sizes(reads, writes, scratch)
    facts = [*_outside(phases, sizes), *_changed(phases), *_unset(phases), *_missing(phases, sizes)]
    facts += [
        f"writes result {j} over operand {i}, which it still reads"
        for i, source in enumerate(reads)
        for j, target in enumerate(writes)
        if source is not None and source == target and not is_safe_in_place(phases, i, j)
    ]
    return next(iter(facts), None)


_Sizes = dict[tuple[Role, int], int]


def _sizes(reads: Sequence[Extent | None], writes: Sequence[Extent | None], scratch: Extent | None) -> _Sizes:
    roles: tuple[tuple[Role, Sequence[Extent | None]], ...]
    roles = (("read", reads), ("write", writes), ("scratch", [scratch]))
    return {(role, i): each.length for role, given in roles for i, each in enumerate(given) if each is not None}


def _outside(phases: Sequence[Phase], sizes: _Sizes) -> Iterator[str]:
    for place in (place for phase in phases for each in phase for place in (*each.reads, *each.writes)):
        room = sizes.get((place.role, place.index), 0)
        if not 0 <= place.offset <= place.end <= room:
            yield f"uses bytes [{place.offset}, {place.end}) of {_name(place)}, which has {room}"


def _changed(phases: Sequence[Phase]) -> Iterator[str]:
    for place in (place for phase in phases for each in phase for place in each.writes):
        if place.role == "read":
            yield f"writes {_name(place)}, which the launch only reads"


def _unset(phases: Sequence[Phase]) -> Iterator[str]:
    written: list[Place] = []
    for phase in phases:
        for place in (place for each in phase for place in each.reads if place.role != "read"):
            if not any(place.touches(other) for other in written):
                yield f"reads {_name(place)} before writing anything there"
        written += [place for each in phase for place in each.writes]


def _missing(phases: Sequence[Phase], sizes: _Sizes) -> Iterator[str]:
    written = sorted((place for phase in phases for each in phase for place in each.writes), key=lambda it: it.offset)
    for (role, index), size in sizes.items():
        done = 0
        for place in written:
            if (place.role, place.index) == (role, index) and place.offset <= done:
                done = max(done, place.end)
        if role == "write" and done < size:
            yield f"leaves result {index} unwritten from byte {done} on"


def is_safe_in_place(phases: Sequence[Phase], read: int, write: int) -> bool:
    """Whether result `write` may alias operand `read`, given the order of commands.

    Nothing may read the operand after the result was written, or while something else may be writing it. A dispatch
    that reads and writes both must be elementwise: the caller must ensure that.
    """
    written = False
    for phase in phases:
        readers = [each for each in phase if each.has("read", read)]
        writers = [each for each in phase if each.has("write", write)]
        if readers and written:
            return False
        if readers and writers and not (readers == writers and _is_ordered(readers, read, write)):
            return False
        written = written or bool(writers)
    return True


def _is_ordered(effects: Sequence[Effect], read: int, write: int) -> bool:
    """Whether the only command is a dispatch that reads each element before overwriting it."""
    (first, *others) = effects
    taken = [place for place in first.reads if (place.role, place.index) == ("read", read)]
    made = [place for place in first.writes if (place.role, place.index) == ("write", write)]
    return not others and all((i, j) in first.ordered for i in taken for j in made)


def _name(place: Place) -> str:
    names = {"read": f"operand {place.index}", "write": f"result {place.index}", "scratch": "its scratch"}
    return names[place.role]
