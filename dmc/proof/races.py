"""V6, and V2 of movements: accesses to the same bytes, at least one a write, are ordered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from dmc.errors import ProofError
from dmc.program import Collective, Move, Program, Range, accesses
from dmc.program.interval_map import IntervalMap
from dmc.program.program import Space
from dmc.proof.order import Order
from dmc.proof.reuse import Owners
from dmc.proof.story import told, what, where


@dataclass(frozen=True)
class _History:
    """Who wrote some bytes last, with the buffer that it wrote, and since then the last reader of each lane."""

    writer: tuple[int, int] | None = None
    readers: dict[int, tuple[int, int]] = field(default_factory=dict)


def check_races(program: Program, order: Order, owners: Owners) -> None:
    """Raises ProofError for two accesses of one rank that overlap, of which one writes, and that no path orders.

    The accesses of a movement last from when its lane begins it to when the lane goes on; whoever touches its operand
    or result in between breaks the borrow (V2). Where the two belong to different buffers, it is reuse (V7). Each
    access is compared with the last writer of its bytes, and a write with the last reader of each lane since; whatever
    came before those is ordered by them. Needs V1 and V3.
    """
    memory: defaultdict[Space, IntervalMap[_History]] = defaultdict(lambda: IntervalMap(_History()))
    for index, command in enumerate(program.commands):
        reads, writes = accesses(command)
        read_owners, write_owners = owners.get(index, ((), ()))
        for touched, owner in zip(reads, read_owners, strict=True):
            known = memory[touched.space].get(touched)
            for history in known:
                if history.writer is not None:
                    _check(program, order, history.writer, (index, owner), touched)
            mark = {command.lane: (index, owner)}
            memory[touched.space].set(touched, [_History(history.writer, history.readers | mark) for history in known])
        for touched, owner in zip(writes, write_owners, strict=True):
            for history in memory[touched.space].get(touched):
                for earlier in _earlier(history):
                    _check(program, order, earlier, (index, owner), touched)
            memory[touched.space].set(touched, [_History((index, owner))])


def _earlier(history: _History) -> Iterator[tuple[int, int]]:
    yield from history.readers.values()
    if history.writer is not None:
        yield history.writer


def _check(program: Program, order: Order, earlier: tuple[int, int], now: tuple[int, int], touched: Range) -> None:
    (first, first_owner), (second, second_owner) = earlier, now
    # A command that works in place reads what it writes.
    if first == second or order.is_before(first, second):
        return
    commands = program.commands[first], program.commands[second]
    if first_owner != second_owner:
        property, fact = "V7", "nothing makes the bytes' old value wait for its last access"
    elif any(isinstance(command, Collective | Move) for command in commands):
        property, fact = "V2", "a movement has borrowed the bytes and nothing waits for its end"
    else:
        property, fact = "V6", "nothing orders the two"
    lane = program.lanes[commands[0].lane].name
    fact = f"touches {told(touched)} while {what(commands[0])} (command {first}, lane {lane}) may still do; {fact}"
    raise ProofError(property, where(program, second), fact, "record an event after the one, await it before the other")
