"""Steps whose optimizer's state waits in host memory, broken where it is fetched and put back: each is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from dmc.errors import ProofError
from dmc.program import Job, Move, Program, Record
from dmc.program.dataflow import Dataflow
from dmc.proof import verify
from dmc.proof.dataflow import check_dataflow
from tests.mutations.check import refusal
from tests.mutations.edits import on_all, replace, with_command, without, without_event
from tests.mutations.mutators import UNORDERED
from tests.mutations.plans import planned_with_dataflow

NAME = "gpt2 state in host memory"


def _moves(program: Program) -> tuple[list[int], list[int]]:
    """The commands that fetch state, and that put it back, the first of each first."""
    moves = [(i, each) for i, each in enumerate(program.commands) if isinstance(each, Move)]
    fetched = [i for i, each in moves if each.source.space == "host"]
    return fetched, [i for i, each in moves if each.target.space == "host"]


def _refused(job: Job, dataflow: Dataflow) -> str:
    """The property that refuses a job: of the programs alone, or of what they compute."""
    if found := refusal(job):
        return found
    try:
        check_dataflow(job, dataflow)
    except ProofError as error:
        return error.property
    return ""


def test_what_is_not_awaited_is_refused(context: Any) -> None:
    """Read before it is there; put back before it is computed; its place on the device used before it has left."""
    job, _ = planned_with_dataflow(NAME, context)
    verify(job)
    first = job.classes[0].program
    queues = [each.queue for each in first.lanes]
    fetched, put_back = _moves(first)
    assert len(fetched) == len(put_back) > 10
    lanes = {queues[first.commands[each].lane] for each in (fetched[0], put_back[0])}
    assert lanes == {"copy_in", "copy_out"}
    events = [each.event for each in first.commands if isinstance(each, Record) and queues[each.lane] in lanes]
    assert len(events) > 4
    for event in events:
        assert refusal(on_all(job, lambda program, event=event: without_event(program, event))) in UNORDERED


def test_state_that_is_not_put_back_is_refused(context: Any) -> None:
    job, dataflow = planned_with_dataflow(NAME, context)
    check_dataflow(job, dataflow)
    for index in _moves(job.classes[0].program)[1][:6]:
        assert _refused(on_all(job, lambda program, index=index: without(program, [index])), dataflow) == "V11"


@pytest.mark.parametrize("direction", [0, 1])
def test_state_of_another_place_is_refused(context: Any, direction: int) -> None:
    """Fetched from, or put back to, where other state of the same size waits."""
    job, dataflow = planned_with_dataflow(NAME, context)
    first = job.classes[0].program
    chosen = _moves(first)[direction]
    swapped = 0
    for one, other in pairwise(chosen):
        moves = [first.commands[each] for each in (one, other)]
        assert all(isinstance(each, Move) for each in moves)
        if _length(first, one) == _length(first, other):
            mutant = on_all(job, lambda program, pair=(one, other): _swapped(program, *pair, direction))
            assert _refused(mutant, dataflow) in ("V11", *UNORDERED, "V7")
            swapped += 1
    assert swapped


def _length(program: Program, index: int) -> int:
    return _move(program, index).source.length


def _move(program: Program, index: int) -> Move:
    command = program.commands[index]
    assert isinstance(command, Move)
    return command


def _swapped(program: Program, one: int, other: int, direction: int) -> Program:
    """With the places in host memory of two moves exchanged."""
    end = ("source", "target")[direction]
    first, second = _move(program, one), _move(program, other)
    program = with_command(program, one, replace(first, **{end: getattr(second, end)}))
    return with_command(program, other, replace(second, **{end: getattr(first, end)}))
