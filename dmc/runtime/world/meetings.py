"""When the ranks of a group meet around the movements that they copy.

They meet before each: all sources are ready then, and all targets free. By that they also tell that they have copied
what the movement before gives, so behind a movement they meet only where nobody can wait for the next: behind the last
of a step, and where a source is overwritten earlier. What overwrites a source later waits for the meeting before the
next movement; this wait is not in the plan, where a movement ends when all have copied.

Such a wait leads from one command to a later one of the same program. Where the ranks of a host have the same
movements, copied or not, in the same order, that closes no circle; otherwise they meet behind every movement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

from dmc.program import Collective, Command, Job, Program, Range, accesses

# A channel's name and the ranks of one of its groups.
Group: TypeAlias = tuple[str, tuple[int, ...]]
# The same for all members, and for no other movement of the job.
Movement: TypeAlias = tuple[int, Group]
# Movements of one group, with their places in a program.
_Chain: TypeAlias = Sequence[tuple[int, Collective]]


def movement_of(command: Collective) -> Movement:
    """The movement that a command is a part in."""
    return command.instance, (command.channel, command.ranks)


class Meetings(NamedTuple):
    """number: of each movement among those of its group. ended: those that end with a meeting. awaited: by the place of
    a command of this rank, the movements before whose copies the ranks must have met."""

    number: Mapping[Movement, int]
    ended: frozenset[Movement]
    awaited: Mapping[int, tuple[Movement, ...]]


def meetings_of(job: Job, rank: int, ranks: Sequence[int], is_copied: Callable[[Collective], bool]) -> Meetings:
    """The meetings of a rank. ranks: those of its host. is_copied: the same on all of them."""
    programs, own = [job.program(each) for each in ranks], job.program(rank)
    chains = [(program, one) for program in programs for one in _chains(program, is_copied)]
    number = {movement_of(command): i for _, one in chains for i, (_, command) in enumerate(one)}
    # Ranks without movements wait for nobody.
    orders = {order for program in programs if (order := tuple(_order(program)))}
    ended = set(number) if len(orders) > 1 else set[Movement]()
    ended.update(*(_ended(program, one) for program, one in chains))
    awaited: dict[int, list[Movement]] = defaultdict(list)
    for (_, command), (place, following) in chain.from_iterable(pairwise(one) for of, one in chains if of is own):
        writers = () if movement_of(command) in ended else _first_writers(own, place, command)
        for later in writers:
            awaited[later].append(movement_of(following))
    return Meetings(number, frozenset(ended), {place: tuple(every) for place, every in awaited.items()})


def _ended(program: Program, movements: _Chain) -> Iterator[Movement]:
    """The movements of a group behind which its ranks meet, for what this program does."""
    for (place, command), (next_place, following) in pairwise(movements):
        if command.lane != following.lane or _is_overwritten(program, place, next_place, command):
            yield movement_of(command)
    yield movement_of(movements[-1][1])


def _order(program: Program) -> Iterator[tuple[str, int]]:
    return ((each.channel, each.instance) for each in program.commands if isinstance(each, Collective))


def _chains(program: Program, is_copied: Callable[[Collective], bool]) -> Iterator[_Chain]:
    chains: dict[Group, list[tuple[int, Collective]]] = defaultdict(list)
    for place, command in enumerate(program.commands):
        if isinstance(command, Collective) and is_copied(command):
            chains[command.channel, command.ranks].append((place, command))
    yield from chains.values()


def _is_overwritten(program: Program, place: int, last: int, command: Collective) -> bool:
    """Whether a command behind that at `place`, up to that at `last`, overwrites the source of a movement."""
    between = program.commands[place + 1 : last + 1]
    return any(_writes(each, command.source) for each in between)


def _first_writers(program: Program, place: int, command: Collective) -> Iterator[int]:
    """The places behind `place` of what first overwrites a movement's source, one for each lane but the movement's."""
    found = {command.lane}
    for later, each in enumerate(program.commands[place + 1 :], place + 1):
        if each.lane not in found and _writes(each, command.source):
            found.add(each.lane)
            yield later


def _writes(command: Command, source: Range | None) -> bool:
    _, written = accesses(command)
    return source is not None and any(source.overlaps(each) for each in written)
