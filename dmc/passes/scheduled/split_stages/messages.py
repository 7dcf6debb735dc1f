"""One order of all messages of a pipeline, in which each rank sends and receives its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from dmc.errors import DmcError
from dmc.passes.scheduled.split_stages.costs import MESSAGE_NS
from dmc.passes.scheduled.split_stages.programs import Item, Message, RankProgram, Receive, Run, Send

# A time, the rank, and the place in its program.
_Time = tuple[float, int, int]


def in_one_order(programs: Sequence[RankProgram]) -> dict[Message, int]:
    """The number of each message; receives go up to where their rank comes to them in this order.

    Messages are in the order of the times at which they are sent, by the estimates for operations. So a
    communicator that makes a rank's messages one after the other never waits for one that comes later, and a receive
    starts when its message is sent. Raises DmcError where ranks wait for each other.
    """
    times = _times(programs)
    numbers = {message: number for number, message in enumerate(sorted(times, key=times.__getitem__))}
    for program in programs:
        program.items = _ordered(program.items, numbers)
    return numbers


def _times(programs: Sequence[RankProgram]) -> dict[Message, _Time]:
    """When each message is sent; ranks run as far as they can without the others."""
    sent: dict[Message, _Time] = {}
    clocks = [_Clock(program, sent) for program in programs]
    # Each in turn, until none gets any further.
    while sum(clock.advance() for clock in clocks):
        pass
    for clock in clocks:
        if (message := clock.waits_for) is not None:
            fact = f"rank {message.target} of the pipeline waits for rank {message.source}, and that for others"
            raise DmcError(message.key[0].owner, fact, "cut the model elsewhere, or use another schedule")
    return sent


@dataclass
class _Clock:
    """How far a rank has come, and when. sent: by all ranks."""

    program: RankProgram
    sent: dict[Message, _Time]
    time: float = 0.0
    place: int = 0

    @property
    def waits_for(self) -> Message | None:
        """The message that has not been sent; None at the end."""
        item = self.program.items[self.place] if self.place < len(self.program.items) else None
        return item.message if isinstance(item, Receive) else None

    def advance(self) -> bool:
        """Whether the rank got any further."""
        first = self.place
        for item in islice(self.program.items, first, None):
            if isinstance(item, Run):
                self.time += item.ns
            elif isinstance(item, Send):
                # Of one time, in the order of a rank.
                self.sent[item.message] = self.time, self.program.rank, self.place
            elif item.message in self.sent:
                self.time = max(self.time, self.sent[item.message][0] + MESSAGE_NS)
            else:
                break
            self.place += 1
        return self.place > first


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
