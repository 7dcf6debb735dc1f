"""Which commands of a rank have ended when another begins, given that rank's own lanes and events."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.program import Await, Program, Record


@dataclass(frozen=True)
class Order:
    """Happens-before between the commands of one rank.

    known[i]: for each lane, the last command that has ended before command i begins (-1 for none).

    A path could also lead through a collective into another rank and back. Such paths are ignored. This is sound: fewer
    paths order less. It is not too strict either, for two reasons. A member of a collective may continue before the
    others are done (a broadcast's root does), so on a real machine such a path orders nothing. And if all ranks have
    one skeleton (V10) and agree on the order of each communicator (V4), the part of the path on another rank, from one
    collective of both ranks to a later one, has a counterpart at the same indices of the rank's own program.
    """

    lanes: tuple[int, ...]
    known: tuple[tuple[int, ...], ...]

    def is_before(self, first: int, second: int) -> bool:
        """Whether command `first` has ended when command `second` begins."""
        lane = self.lanes[first]
        return first < second and (lane == self.lanes[second] or self.known[second][lane] >= first)


def order_of(program: Program) -> Order:
    """The order of a program whose awaits all follow their records. Linear in commands times lanes.

    Vector clocks (Fidge 1988, Mattern 1989), one component a lane. The proof has its own implementation, separate from
    the one that places events (`dmc/analysis/commands/clocks.py`), so that no bug affects both.
    """
    last = [-1] * len(program.lanes)
    current = [(-1,) * len(program.lanes)] * len(program.lanes)
    signalled: dict[int, tuple[int, ...]] = {}
    known: list[tuple[int, ...]] = []
    for index, command in enumerate(program.commands):
        lane = command.lane
        if isinstance(command, Await):
            current[lane] = tuple(map(max, current[lane], signalled[command.event]))
        known.append(current[lane])
        if isinstance(command, Record):
            clock = list(current[lane])
            clock[lane] = max(clock[lane], last[lane])
            signalled[command.event] = tuple(clock)
        last[lane] = index
    return Order(tuple(command.lane for command in program.commands), tuple(known))
