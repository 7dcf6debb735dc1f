"""Steps whose activations wait in host memory, broken where they leave and return: each is refused."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from dmc.errors import ProofError
from dmc.program import Buffer, Move, Program, Range, Record
from dmc.proof import verify
from dmc.proof.dataflow import check_dataflow
from tests.mutations.check import refusal
from tests.mutations.edits import on_all, replace, with_command, without_event
from tests.mutations.mutators import UNORDERED
from tests.mutations.plans import planned_with_dataflow

NAME = "gpt2 offloaded"


def _events(program: Program, lane: str) -> list[int]:
    """The events that are recorded on lanes of a queue."""
    queues = [each.queue for each in program.lanes]
    return [each.event for each in program.commands if isinstance(each, Record) and queues[each.lane] == lane]


def _copies(program: Program) -> tuple[list[int], list[int]]:
    """The commands that move what is offloaded away, and back."""
    slots = {slot.range for slot in program.slots}
    moves = [(i, each) for i, each in enumerate(program.commands) if isinstance(each, Move)]
    away = [i for i, each in moves if each.target.space == "pinned_host" and each.target not in slots]
    back = [i for i, each in moves if each.source.space == "pinned_host" and each.source not in slots]
    return away, back


def test_what_is_not_awaited_is_refused(context: Any) -> None:
    """Read before it is back; its place used before it has left; fetched before it has left."""
    job, _ = planned_with_dataflow(NAME, context)
    verify(job)
    first = job.classes[0].program
    away, back = _copies(first)
    assert len(away) == len(back) > 2
    events = [*_events(first, "copy_out"), *_events(first, "copy_in")]
    assert len(events) > 4
    for event in events:
        assert refusal(on_all(job, lambda program, event=event: without_event(program, event))) in UNORDERED


def test_another_value_from_the_host_is_refused(context: Any) -> None:
    job, dataflow = planned_with_dataflow(NAME, context)
    first = job.classes[0].program
    _, back = _copies(first)
    swapped = 0
    for one, other in combinations(back, 2):
        sources = [_move(first, each).source for each in (one, other)]
        if sources[0].length != sources[1].length or sources[0] == sources[1]:
            continue
        mutant = on_all(job, lambda program, pair=(one, other): _swapped(program, *pair))
        with pytest.raises(ProofError) as caught:
            check_dataflow(mutant, dataflow)
        assert caught.value.property == "V11"
        swapped += 1
    assert swapped


def test_host_memory_is_of_one_value_at_a_time(context: Any) -> None:
    """Two values that are in host memory at the same time may not have the same place there."""
    job, _ = planned_with_dataflow(NAME, context)
    first = job.classes[0].program
    slots = {slot.range for slot in first.slots}
    parked = [each for each in first.buffers if each.range.space == "pinned_host" and each.range not in slots]
    pairs = [(a, b) for a, b in combinations(parked, 2) if a.range.length == b.range.length and _meet(a, b)]
    assert pairs
    for one, other in pairs[:6]:
        mutant = on_all(job, lambda program, pair=(one, other): _at_the_place_of(program, *pair))
        assert refusal(mutant) in {"V7", *UNORDERED}


def _move(program: Program, index: int) -> Move:
    command = program.commands[index]
    assert isinstance(command, Move)
    return command


def _swapped(program: Program, one: int, other: int) -> Program:
    first, second = _move(program, one), _move(program, other)
    program = with_command(program, one, replace(first, source=second.source))
    return with_command(program, other, replace(second, source=first.source))


def _meet(one: Buffer, other: Buffer) -> bool:
    return one.range != other.range and one.first <= other.last and other.first <= one.last


def _at_the_place_of(program: Program, moved: Buffer, other: Buffer) -> Program:
    """All copies and the buffer of one value, in the place of another."""

    def place(range_: Range) -> Range:
        return other.range if range_ == moved.range else range_

    def change(index: int, command: Any) -> Any:
        is_its = isinstance(command, Move) and moved.first <= index <= moved.last
        return replace(command, source=place(command.source), target=place(command.target)) if is_its else command

    commands = tuple(change(index, command) for index, command in enumerate(program.commands))
    buffers = tuple(replace(each, range=other.range) if each == moved else each for each in program.buffers)
    return replace(program, commands=commands, buffers=buffers)
