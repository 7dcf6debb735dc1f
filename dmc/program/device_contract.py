"""Whether a job's GPU code respects its launches, as far as steps and PTX show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

from dmc.errors import ProofError
from dmc.program.code import Attention, DeviceCode, Dispatch, Fill, Place, Product, Step
from dmc.program.contract import check_contracts, phases_of
from dmc.program.job import Job
from dmc.program.program import ALIGNMENT, Launch, Range
from dmc.program.ptx_accesses import Accesses, parameter_accesses


@dataclass(frozen=True)
class Given:
    """Facts about the buffers of an entry, by number, in every launch of a job.

    alignments: of each buffer's address; arenas begin at multiples of `ALIGNMENT`. overwritten: those that overlap
    another, where the entry writes one of the two.
    """

    alignments: tuple[int, ...]
    overwritten: frozenset[int]

    def joined(self, other: Given) -> Given:
        """The facts that hold for this and for another launch."""
        alignments = map(math.gcd, self.alignments, other.alignments)
        return Given(tuple(alignments), self.overwritten | other.overwritten)


def given_buffers(job: Job, kernels: Mapping[str, Sequence[Step]]) -> dict[tuple[str, str], Given]:
    """Facts about the buffers of each entry, by module and name, that the steps of `kernels` run in `job`."""
    found: dict[tuple[str, str], Given] = {}
    for launch in _launches(job):
        for step in kernels[launch.kernel]:
            if isinstance(step, Dispatch):
                given = _given(step, launch)
                key = step.module, step.entry
                found[key] = found.get(key, given).joined(given)
    return found


def _given(step: Dispatch, launch: Launch) -> Given:
    ranges = [_range(each.place, launch) for each in step.bindings]
    written = {i for i, each in enumerate(step.bindings) if "w" in each.access}
    pairs = (pair for pair in combinations(range(len(ranges)), 2) if not written.isdisjoint(pair))
    shared = (pair for pair in pairs if ranges[pair[0]].overlaps(ranges[pair[1]]))
    alignments = tuple(math.gcd(ALIGNMENT, each.offset) for each in ranges)
    return Given(alignments, frozenset(index for pair in shared for index in pair))


def _launches(job: Job) -> Iterator[Launch]:
    return (launch for _, launch in job.launches())


def _range(place: Place, launch: Launch) -> Range:
    """The bytes of a place of a kernel in one of its launches."""
    ranges = {"read": launch.reads, "write": launch.writes, "scratch": (launch.scratch,)}[place.role]
    whole = ranges[place.index]
    assert whole is not None, "a kernel with scratch is launched with scratch memory"
    return Range(whole.space, whole.offset + place.offset, place.length)


def check_device_code(job: Job, code: DeviceCode) -> None:
    """Raises ProofError for a launch of `job` that its kernel's steps violate, and for an entry that may write a buffer
    which its dispatch only reads, or whose assumptions about its buffers do not hold in every launch.
    """
    check_contracts(job, {name: phases_of(steps) for name, steps in code.kernels.items()})
    entries = {name: parameter_accesses(module.ptx) for name, module in code.modules.items()}
    given = given_buffers(job, code.kernels)
    for name, steps in code.kernels.items():
        for step in (step for step in steps if isinstance(step, Dispatch)):
            entry = entries.get(step.module, {}).get(step.entry)
            if (fact := _breach(step, entry, given.get((step.module, step.entry)))) is not None:
                raise ProofError("V12", f"kernel @{name}, entry {step.entry}", fact, "please report the model")
    for launch in _launches(job):
        steps = code.kernels[launch.kernel]
        if (fact := _split_pattern(steps, launch) or _odd_tensor(steps, launch)) is not None:
            raise ProofError("V12", f"launch of @{launch.kernel}", fact, "please report the model")


def _breach(step: Dispatch, entry: Accesses | None, given: Given | None) -> str | None:
    if entry is None:
        return "is not in the code"
    firsts, count = _parameters(step)
    if len(entry.alignments) != count:
        return f"takes {len(entry.alignments)} parameters, but gets {count}"
    if not entry.is_known:
        return "writes to an address that is not computed from its parameters"
    mapped = {first: each.map for first, each in zip(firsts, step.bindings, strict=True) if each.map is not None}
    if entry.maps != mapped.keys():
        return f"takes tensor maps as parameters {sorted(entry.maps)}, but gets them as {sorted(mapped)}"
    writable = {first for first, each in zip(firsts, step.bindings, strict=True) if "w" in each.access}
    for index in sorted(entry.written - writable):
        return f"may write through parameter {index}, which its dispatch only reads"
    for index, each in enumerate(step.bindings):
        if each.map is not None and each.map.length > each.place.length:
            return f"maps {each.map.length} bytes of binding {index}, which has {each.place.length}"
    return None if given is None else _presumption(entry, firsts, given)


def _parameters(step: Dispatch) -> tuple[list[int], int]:
    """The index of each binding's first parameter, and the number of parameters."""
    ends = list(accumulate((each.parameters for each in step.bindings), initial=0))
    return ends[:-1], ends[-1] + len(step.scalars) + step.nulls


def _presumption(entry: Accesses, firsts: Sequence[int], given: Given) -> str | None:
    """The entry's assumptions about its buffers that do not hold."""
    for index, there in zip(firsts, given.alignments, strict=True):
        if there % entry.alignments[index]:
            needed = entry.alignments[index]
            return f"assumes that parameter {index} is a multiple of {needed}, but gets a multiple of {there}"
    overwritten = {firsts[index] for index in given.overwritten}
    for index in sorted(entry.cached & (overwritten | entry.written)):
        return f"reads parameter {index} as if it were read-only, but writes there"
    return None


def _split_pattern(steps: Iterable[Step], launch: Launch) -> str | None:
    """A fill not aligned to its pattern: a GPU writes patterns only at multiples of their size."""
    for step in steps:
        if isinstance(step, Fill):
            where, size = _range(step.target, launch), len(step.pattern)
            if where.offset % size or where.length % size:
                return f"fills bytes [{where.offset}, {where.end}) with a pattern of {size}"
    return None


def _odd_tensor(steps: Iterable[Step], launch: Launch) -> str | None:
    """A step of a library with a tensor less aligned than declared to it."""
    for step in steps:
        if isinstance(step, Product | Attention):
            odd = [where for where in (_range(each, launch) for each in step.places()) if where.offset % step.alignment]
            if odd:
                return f"passes a library a tensor at byte {odd[0].offset} that is declared aligned to {step.alignment}"
    return None
