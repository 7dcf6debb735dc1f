"""V6, and V2 for movements: conflicting accesses to the same bytes are ordered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from dmc.errors import ProofError
from dmc.program import Collective, Move, Program, Range, accesses
from dmc.program.interval_map import IntervalMap
from dmc.program.program import Space
from dmc.proof.order import Order
from dmc.proof.reuse import Buffers, Owners
from dmc.proof.story import told, what, where

# A command, by index, and the buffers that it accessed.
_Access = tuple[int, Buffers]


@dataclass(frozen=True)
class _History:
    """The last writer of some bytes, with the buffers that it wrote, and the last reader since then on each lane."""

    writer: _Access | None = None
    readers: dict[int, _Access] = field(default_factory=dict)


_Memory = defaultdict[Space, IntervalMap[_History]]


def check_races(program: Program, order: Order, owners: Owners) -> None:
    """Raises ProofError for two conflicting accesses of one rank that no path orders.

    The accesses of a movement last from when its lane begins it until the lane continues; accesses to its operand or
    result before that violate the borrow (V2). If the two belong to different buffers, it is reuse (V7). Each access is
    compared with the last writer of its bytes, and a write with the last reader of each lane since; earlier accesses
    are ordered through these. Needs V1 and V3.
    """
    memory: _Memory = defaultdict(lambda: IntervalMap(_History()))
    for index, command in enumerate(program.commands):
        reads, writes = accesses(command)
        read_owners, write_owners = owners.get(index, ((), ()))
        for touched, owner in zip(reads, read_owners, strict=True):
            for earlier in _read(memory, touched, command.lane, (index, owner)):
                _check(program, order, earlier, (index, owner), touched)
        for touched, owner in zip(writes, write_owners, strict=True):
            for earlier in _write(memory, touched, (index, owner)):
                _check(program, order, earlier, (index, owner), touched)


def _read(memory: _Memory, touched: Range, lane: int, by: _Access) -> set[_Access]:
    """Records a read; returns the writes that it must come after."""
    known = memory[touched.space].get(touched)
    memory[touched.space].set(touched, [_History(each.writer, each.readers | {lane: by}) for each in known])
    return {each.writer for each in known if each.writer is not None}


def _write(memory: _Memory, touched: Range, by: _Access) -> set[_Access]:
    """Records a write; returns the accesses that it must come after."""
    known = memory[touched.space].get(touched)
    memory[touched.space].set(touched, [_History(by)])
    return {earlier for each in known for earlier in _earlier(each)}


def _earlier(history: _History) -> Iterator[_Access]:
    yield from history.readers.values()
    if history.writer is not None:
        yield history.writer


def _check(program: Program, order: Order, earlier: _Access, now: _Access, touched: Range) -> None:
    (first, first_owner), (second, second_owner) = earlier, now
    # An in-place command reads what it writes.
    if first == second or order.is_before(first, second):
        return
    commands = program.commands[first], program.commands[second]
    if first_owner.isdisjoint(second_owner):
        property, fact = "V7", "nothing orders the reuse of the bytes after the last access to their old value"
    elif isinstance(commands[0], Collective | Move):
        property, fact = "V2", "a movement has borrowed the bytes and nothing waits for its end"
    else:
        property, fact = "V6", "nothing orders the two"
    lane = program.lanes[commands[0].lane].name
    fact = f"accesses {told(touched)} while {what(commands[0])} (command {first}, lane {lane}) may still do so; {fact}"
    raise ProofError(property, where(program, second), fact, "record an event after one, and await it before the other")
