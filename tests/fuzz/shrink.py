"""Makes a find small: fewer lines, results and leaves, plainer numbers, as long as it stays the find that it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.program import Leaf, Program

Keeps = Callable[[Program], bool]
MOST_TRIES = 100


def shrink(program: Program, keeps: Keeps) -> Program:
    """A smaller program for which `keeps` still holds; it holds for `program`."""
    candidates, tried = smaller(program), {program}
    while len(tried) < MOST_TRIES and (candidate := next(candidates, None)) is not None:
        if candidate not in tried and keeps(candidate):
            program, candidates = candidate, smaller(candidate)
        tried.add(candidate)
    return program


def smaller(program: Program) -> Iterator[Program]:
    """Programs that are one change smaller, the largest changes first."""
    yield from _slices(program)
    yield from _without_a_line(program)
    yield from _without_a_result(program)
    if program.optimizer != Program.optimizer:
        yield replace(program, optimizer=Program.optimizer)
    yield from _without_a_read(program)
    yield from _with_plainer_leaves(program)


def _slices(program: Program) -> Iterator[Program]:
    """One result alone, with the lines that it needs."""
    for name in program.losses:
        yield _needed(replace(program, losses=tuple(dict.fromkeys((program.losses[0], name))), outputs=()))
    for name in program.outputs:
        yield _needed(replace(program, losses=program.losses[:1], outputs=(name,)))
    if len(program.losses) + len(program.outputs) > 1:
        yield _needed(replace(program, losses=program.losses[:1], outputs=()))


def _needed(program: Program) -> Program:
    """`program` without lines whose results are unused. In-place changes stay."""
    read, lines = {*program.losses, *program.outputs}, []
    for line in reversed(program.lines):
        if not line.targets or not read.isdisjoint(line.targets):
            lines.append(line)
            read.update(line.operands)
    return replace(program, lines=tuple(reversed(lines)))


def _without_a_line(program: Program) -> Iterator[Program]:
    for at, line in reversed(list(enumerate(program.lines))):
        rest = replace(program, lines=program.lines[:at] + program.lines[at + 1 :])
        yield _repaired(rest, {})
        # What read its results may read what it read.
        for operand in dict.fromkeys(line.operands) if line.targets else ():
            yield _repaired(rest, dict.fromkeys(line.targets, operand))


def _without_a_result(program: Program) -> Iterator[Program]:
    for name in program.losses[1:]:
        yield replace(program, losses=tuple(other for other in program.losses if other != name))
    for name in program.outputs:
        yield replace(program, outputs=tuple(other for other in program.outputs if other != name))


def _without_a_read(program: Program) -> Iterator[Program]:
    """Leaves that no line reads, but one of each role that a step needs."""
    read = {name for line in program.lines for name in line.operands} | {*program.losses, *program.outputs}
    for leaf in program.leaves:
        if leaf.name not in read and (leaf.role != "input" or len(program.of("input")) > 1):
            yield replace(program, leaves=tuple(other for other in program.leaves if other is not leaf))


def _with_plainer_leaves(program: Program) -> Iterator[Program]:
    for leaf in program.leaves:
        for plainer in _plainer(leaf):
            yield replace(program, leaves=tuple(plainer if other is leaf else other for other in program.leaves))


def _plainer(leaf: Leaf) -> Iterator[Leaf]:
    if leaf.layout != "plain":
        yield replace(leaf, layout="plain")
    if leaf.dtype == "bool":
        return
    for number in (0, 1):
        if any(value != number for value in leaf.values):
            yield replace(leaf, values=(number,) * len(leaf.values))
    if len(set(leaf.values)) > 2:
        yield replace(leaf, values=tuple(1 if value == 1 else 2 for value in leaf.values))


def _repaired(program: Program, stands_for: dict[str, str]) -> Program:
    """`program` without lines that read undefined names, after renaming."""
    known = {leaf.name for leaf in program.leaves}
    lines = []
    for line in program.lines:
        operands = tuple(stands_for.get(name, name) for name in line.operands)
        if all(name in known for name in operands):
            lines.append(replace(line, operands=operands))
            known |= set(line.targets)
    losses = (name for name in program.losses if name in known)
    outputs = [name for name in program.outputs if name in known]
    kept = replace(program, lines=tuple(lines), losses=tuple(losses), outputs=tuple(outputs))
    # What lost its only reader is a result now, lest the fault be out of sight.
    read = {name for line in lines for name in line.operands}
    ends = [name for line in lines for name in line.targets if name not in read and name not in outputs]
    return replace(kept, outputs=(*kept.outputs, *ends))
