"""Ranks that do the same at the same time, of which one is simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc.machine import Machine, launch_ns
from dmc.program import Collective, Job, Launch
from dmc.program.classes import Class
from dmc.program.collectives import members_of
from dmc.simulator.population import Group, Population, everyone


@dataclass(frozen=True)
class Folded(Population):
    """The first rank of each class, of `copies` ranks. class_of: the first rank of each rank's class."""

    class_of: dict[int, int]

    def group(self, members: tuple[int, ...]) -> Group:
        """The group of a first rank: of its members, those that are the first of their classes are simulated."""
        played = tuple(rank for rank in members if rank in self.programs)
        return Group(played, members, self.copies * len(played) // len(members))


def folded(job: Job, machine: Machine) -> Population:
    """One rank of each class; every rank, where those of a class may differ in time, or classes in size.

    Ranks of a class run the same commands. They start and end together if their kernels take the same time, and the
    groups in which they move data have members of the same classes, placed likewise on nodes. By induction over the
    commands, nothing ever tells them apart.
    """
    class_of = {rank: each.ranks[0] for each in job.classes for rank in each.ranks}
    sizes = {len(each.ranks) for each in job.classes}
    nodes = {machine.node(rank) for rank in class_of}
    is_even = len(sizes) == 1 and (len(nodes) == 1 or not machine.device.shared)
    if not is_even or not all(_is_alike(job, machine, each, class_of) for each in job.classes):
        return everyone(job)
    return Folded(job.size, sizes.pop(), {each.ranks[0]: each.program for each in job.classes}, class_of)


def _is_alike(job: Job, machine: Machine, own: Class, class_of: dict[int, int]) -> bool:
    """Whether the ranks of a class start and end each of its commands together."""
    if any(len({launch_ns(machine, job.kernels[name]) for name in names}) > 1 for names in _variants(own)):
        return False
    for command in _movements(own):
        members = [members_of(rank, _of(job, own, rank, command)) for rank in own.ranks]
        if len({_pattern(machine, class_of, group) for group in members}) > 1:
            return False
        # Of each class that takes part the first rank does, and so in as many groups as the class has ranks in one.
        counts = Counter(class_of[rank] for rank in members[0])
        if not counts.keys() <= set(members[0]) or len(set(counts.values())) > 1:
            return False
    return True


def _variants(own: Class) -> Iterator[tuple[str, ...]]:
    """The kernels of each launch that are not the same on every rank."""
    for command in own.program.commands:
        if isinstance(command, Launch) and command.variants is not None:
            yield command.variants.kernels


def _movements(own: Class) -> list[Collective]:
    """A movement for each group, and of messages for each peer."""
    found = {
        (command.channel, command.kind, command.ranks, command.peer): command
        for command in own.program.commands
        if isinstance(command, Collective)
    }
    return list(found.values())


def _of(job: Job, own: Class, rank: int, command: Collective) -> Collective:
    """What a rank of the class runs as this command of the first one."""
    moved = job.member(own, rank).command(command)
    assert isinstance(moved, Collective), "a movement is one on each rank"
    return moved


def _pattern(machine: Machine, class_of: dict[int, int], group: Sequence[int]) -> object:
    """What determines the time of a movement in a group, and who waits for whom in it."""
    nodes = Counter(map(machine.node, group))
    return tuple(sorted(nodes.values())), tuple(sorted(class_of[rank] for rank in group))
