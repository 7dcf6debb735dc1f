"""How two plans differ: commands in one only, with other operands or waits, or at other offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from dmc.program import Job, Space
from dmc.program.sizes import size_text
from dmc.runtime.reports.plan.lines import Line, lines_of

Mark = Literal["-", "+", "<", ">"]


@dataclass(frozen=True)
class Difference:
    """A line that differs. "-" is only in the old plan, "+" only in the new one; "<" and ">" are the same command.

    place_only: both read and write the same amounts and wait for the same, but at other offsets.
    """

    mark: Mark
    line: Line
    place_only: bool = False


def differences(old: Job, new: Job, rank: int) -> list[Difference]:
    """The lines of a rank's program that differ, in order of issue.

    Lines are matched by lane, kind and label with `difflib`: about linear for similar plans, quadratic in the worst
    case.
    """
    ours, theirs = lines_of(old, rank), lines_of(new, rank)
    matcher = SequenceMatcher(None, [_same(line) for line in ours], [_same(line) for line in theirs], autojunk=False)
    blocks = matcher.get_opcodes()
    matched = {
        ours[first + i].number: theirs[other + i].number
        for tag, first, end, other, _ in blocks
        for i in range(end - first)
        if tag == "equal"
    }
    found: list[Difference] = []
    for tag, first, end, other, other_end in blocks:
        if tag == "equal":
            found += _changed(ours[first:end], theirs[other:other_end], matched)
            continue
        found += [Difference("-", line) for line in ours[first:end]]
        found += [Difference("+", line) for line in theirs[other:other_end]]
    return found


def frames(old: Job, new: Job, rank: int, exact: bool) -> Iterator[str]:
    """Differences outside the commands, one per line: mesh, memory, lanes and slots."""
    if old.mesh != new.mesh:
        yield f"mesh: {_axes(old)} → {_axes(new)}"
    mine, theirs = old.program(rank), new.program(rank)
    spaces: set[Space] = {*mine.arenas, *theirs.arenas}
    for space in sorted(spaces):
        before, after = mine.arenas.get(space, 0), theirs.arenas.get(space, 0)
        if before != after:
            sizes = [size_text(size, exact) for size in (before, after, abs(after - before))]
            sign = "+" if after > before else "-"
            yield f"{space.replace('_', ' ')} memory: {sizes[0]} → {sizes[1]} ({sign}{sizes[2]})"
    yield from _named("lanes", {lane.name: lane for lane in mine.lanes}, {lane.name: lane for lane in theirs.lanes})
    shapes = [{slot.name: (slot.role, slot.dtype, slot.shape) for slot in each.slots} for each in (mine, theirs)]
    yield from _named("slots", *shapes)


def _same(line: Line) -> tuple[str, ...]:
    return line.lane, line.kind, line.label


def _changed(ours: Sequence[Line], theirs: Sequence[Line], matched: Mapping[int, int]) -> Iterator[Difference]:
    """The pairs that differ. Numbers of events and kernels do not matter, only the waits and bytes."""
    for old, new in zip(ours, theirs, strict=True):
        waits = {wait.after if wait.after is None else matched.get(wait.after) for wait in old.waits}
        place_only = _sizes(old) == _sizes(new) and waits == {wait.after for wait in new.waits}
        if not place_only or (old.reads, old.writes) != (new.reads, new.writes):
            yield Difference("<", old, place_only)
            yield Difference(">", new, place_only)


def _sizes(line: Line) -> tuple[object, ...]:
    ranges = [[(each.space, each.length) for each in side] for side in (line.reads, line.writes)]
    return line.bytes, ranges


def _named(what: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    found = {
        "only in the first": [name for name in old if name not in new],
        "only in the second": [name for name in new if name not in old],
        "changed": [name for name in old if name in new and old[name] != new[name]],
    }
    yield from (f"{what} {verb}: {', '.join(names)}" for verb, names in found.items() if names)


def _axes(job: Job) -> str:
    return ", ".join(f"{axis}={size}" for axis, size in job.mesh.items())
