"""The order of a rank's commands, implied by its lanes and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dmc.program.program import Await, Command, Record

# For each lane, the number of its commands that are done.
Clock = tuple[int, ...]


class Clocks:
    """Vector clocks of one rank's lanes, fed command by command in the order of issue.

    Before a command begins, its lane knows `before`: the number of commands of each lane that are done. Lanes are in
    order, so a lane knows all of its own earlier commands. (Fidge, Mattern: vector time.)
    """

    def __init__(self, lanes: int) -> None:
        self._known: list[list[int]] = [[0] * lanes for _ in range(lanes)]
        self._events: dict[int, Clock] = {}

    def before(self, lane: int) -> Clock:
        """The clock when the next command of `lane` begins."""
        return tuple(self._known[lane])

    def join(self, lane: int, clock: Iterable[int]) -> None:
        """Joins `clock` into that of `lane`."""
        self._known[lane] = [max(pair) for pair in zip(self._known[lane], clock, strict=True)]

    def issue(self, command: Command) -> Clock:
        """Processes `command`; returns the clock when it has ended. Raises KeyError for an event not recorded
        before."""
        lane = command.lane
        if isinstance(command, Await):
            self.join(lane, self._events[command.event])
        self._known[lane][lane] += 1
        after = tuple(self._known[lane])
        if isinstance(command, Record):
            self._events[command.event] = after
        return after


def is_before(lane: int, place: int, clock: Clock) -> bool:
    """Whether command `place` (from 0) of `lane` is done according to `clock`."""
    return clock[lane] > place


def uncovered(needed: Mapping[int, int], after: Mapping[tuple[int, int], Clock], clock: Clock) -> dict[int, int]:
    """Of the `needed` commands (lane -> place), those implied neither by `clock` nor by another.

    after: the clock when a needed command has ended. The result is the minimal set: the transitive reduction.
    """
    open_ = {lane: place for lane, place in needed.items() if not is_before(lane, place, clock)}
    return {
        lane: place
        for lane, place in open_.items()
        if not any(is_before(lane, place, after[other, open_[other]]) for other in open_ if other != lane)
    }
