"""One order of all messages of a pipeline, in which each rank sends and receives its own."""

from __future__ import annotations

from collections.abc import Sequence

from dmc.errors import DmcError
from dmc.passes.scheduled.split_stages.programs import Item, Message, RankProgram, Receive, Run, Send

# The time of a message, in that of a forward pass: what depends on one comes later than it.
_MESSAGE = 1e-3


def in_one_order(programs: Sequence[RankProgram]) -> dict[Message, int]:
    """The number of each message; receives go up to where their rank comes to them in this order.

    Messages are in the order of the times at which they are sent, as far as those of actions are known. So a
    communicator that makes a rank's messages one after the other never waits for one that comes later, and a receive
    starts when its message is sent. Raises DmcError where ranks wait for each other.
    """
    times = _times(programs)
    numbers = {message: number for number, message in enumerate(sorted(times, key=times.__getitem__))}
    for program in programs:
        program.items = _ordered(program.items, numbers)
    return numbers


def _times(programs: Sequence[RankProgram]) -> dict[Message, tuple[float, int, int]]:
    """When each message is sent; ranks run as far as they can without the others."""
    sent: dict[Message, tuple[float, int, int]] = {}
    clocks, places = [0.0] * len(programs), [0] * len(programs)
    while True:
        before = list(places)
        for program in programs:
            rank = program.rank
            while places[rank] < len(program.items):
                item = program.items[places[rank]]
                if isinstance(item, Run):
                    clocks[rank] += item.share
                elif isinstance(item, Send):
                    # Of one time, in the order of a rank.
                    sent[item.message] = clocks[rank], rank, places[rank]
                elif item.message in sent:
                    clocks[rank] = max(clocks[rank], sent[item.message][0] + _MESSAGE)
                else:
                    break
                places[rank] += 1
        if places == before:
            break
    waiting = [program for program in programs if places[program.rank] < len(program.items)]
    if waiting:
        rank = waiting[0].rank
        item = waiting[0].items[places[rank]]
        assert isinstance(item, Receive), "nothing else waits"
        fact = f"rank {rank} of the pipeline waits for rank {item.message.source}, and that for others"
        raise DmcError(item.message.key[0].owner, fact, "cut the model elsewhere, or use another schedule")
    return sent


def _ordered(items: Sequence[Item], numbers: dict[Message, int]) -> list[Item]:
    """Each receive before the first message with a larger number."""
    pending = sorted((item for item in items if isinstance(item, Receive)), key=lambda item: numbers[item.message])
    found: list[Item] = []
    done = 0
    for item in items:
        if isinstance(item, Run):
            found.append(item)
            continue
        # A receive itself is needed here; of the others those that come before this message.
        limit = numbers[item.message] + isinstance(item, Receive)
        while done < len(pending) and numbers[pending[done].message] < limit:
            found.append(pending[done])
            done += 1
        if isinstance(item, Send):
            found.append(item)
    return found
