"""Jobs in which some ranks run something else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec.structs import replace

from dmc.program import Await, Class, Command, Job, Launch, Program, Record


def with_programs(job: Job, programs: Iterable[Program]) -> Job:
    """The job in which these ranks have these programs; ranks whose program changes leave their class."""
    changed = {each.rank: each for each in programs if each != job.program(each.rank)}
    classes = [*(left for own in job.classes for left in _without(job, own, changed))]
    classes += [Class((rank,), program) for rank, program in changed.items()]
    return replace(job, classes=tuple(sorted(classes, key=lambda own: own.ranks)))


def on_ranks(job: Job, ranks: Iterable[int], change: Callable[[Program], Program]) -> Job:
    """The job with the programs of some ranks changed; where these are all, classes stay."""
    chosen = set(ranks)
    if chosen >= set(range(job.size)):
        return job.mapped(change)
    return with_programs(job, [change(job.program(rank)) for rank in sorted(chosen)])


def _without(job: Job, own: Class, gone: Collection[int]) -> Iterator[Class]:
    ranks = tuple(rank for rank in own.ranks if rank not in gone)
    if ranks:
        first = job.program(ranks[0])
        pairs = zip(first.commands, own.program.commands, strict=True)
        yield Class(ranks, replace(first, commands=tuple(_differing(*pair) for pair in pairs)))


def _differing(command: Command, other: Command) -> Command:
    """The command, with what differs between ranks as another says."""
    if isinstance(command, Record | Await) or isinstance(other, Record | Await):
        return command
    command = replace(command, slices=other.slices)
    is_launch = isinstance(command, Launch) and isinstance(other, Launch)
    return replace(command, variants=other.variants) if is_launch else command
