"""Pipelines with their messages, kernels and classes of ranks broken by hand: each is refused.

What is broken is so on all ranks of a stage, for which one is proven where each does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, pairwise, product
from typing import Any

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import ProofError
from dmc.program import Class, Collective, Job, Launch, Program, Range
from dmc.program.collectives import MESSAGES
from dmc.program.dataflow import Dataflow
from dmc.proof import verify
from dmc.proof.dataflow import holds_for_any_rank
from tests.mutations.edits import places, replace, swapped, with_command, without
from tests.mutations.plans import STAGES, planned_with_dataflow

Mutants = Iterator[Job]


@pytest.fixture(scope="module", params=STAGES)
def stages(request: pytest.FixtureRequest) -> tuple[Job, Dataflow]:
    """The job of a pipeline, and what it must compute."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return planned_with_dataflow(request.param, context)


def _messages(program: Program, *kinds: str) -> list[tuple[int, Collective]]:
    return [(i, each) for i, each in _collectives(program) if each.kind in kinds]


def _every_message(program: Program) -> list[tuple[int, Collective]]:
    return _messages(program, *MESSAGES)


def _collectives(program: Program) -> Iterator[tuple[int, Collective]]:
    for index in places(program, Collective):
        command = program.commands[index]
        assert isinstance(command, Collective)
        yield index, command


def _with(job: Job, own: Class, index: int, command: Any) -> Job:
    return _changed(job, own, lambda program: with_command(program, index, command))


def _changed(job: Job, own: Class, change: Callable[[Program], Program]) -> Job:
    """The job in which all ranks of a class run something else."""
    new = Class(own.ranks, change(own.program))
    return replace(job, classes=tuple(new if each is own else each for each in job.classes))


def _of_another_value(job: Job) -> Mutants:
    """A send reads where the program's other send of the same size reads."""
    for own in job.classes:
        for (index, one), (_, other) in combinations(_messages(own.program, "send"), 2):
            if one.source != other.source and _length(one.source) == _length(other.source):
                yield _with(job, own, index, replace(one, source=other.source))


def _into_another_place(job: Job) -> Mutants:
    """A receive writes where the program's other receive of the same size writes."""
    for own in job.classes:
        for (index, one), (_, other) in combinations(_messages(own.program, "recv"), 2):
            if one.target != other.target and _length(one.target) == _length(other.target):
                yield _with(job, own, index, replace(one, target=other.target))


def _in_another_order(job: Job) -> Mutants:
    """A rank issues two messages from or to one other rank the other way round."""
    for own in job.classes:
        for (one, first), (other, second) in pairwise(_every_message(own.program)):
            if first.peer == second.peer:
                yield _changed(job, own, lambda each, one=one, other=other: swapped(each, one, other))


def _exchanged(job: Job) -> Mutants:
    """Two messages between the same ranks, of one type and size, carry each other's values."""
    for own in job.classes:
        for (_, one), (_, other) in combinations(_messages(own.program, "send"), 2):
            alike = (one.peer, one.dtype, one.count) == (other.peer, other.dtype, other.count)
            if alike and one.source != other.source:
                new = {one.instance: other.source, other.instance: one.source}
                yield _changed(job, own, partial(_sending, new))


def _sending(sources: dict[int, Range | None], program: Program) -> Program:
    for index, each in _messages(program, "send"):
        program = with_command(program, index, replace(each, source=sources.get(each.instance, each.source)))
    return program


def _to_another_rank(job: Job) -> Mutants:
    for own in job.classes:
        for index, each in _every_message(own.program):
            for peer in {*range(len(each.ranks))} - {each.peer}:
                yield _with(job, own, index, replace(each, peer=peer))


def _on_one_side(job: Job) -> Mutants:
    """A message of which one end is missing."""
    for own in job.classes:
        for index, _ in _every_message(own.program):
            yield _changed(job, own, lambda each, index=index: without(each, [index]))


def _on_neither_side(job: Job) -> Mutants:
    """A message that is gone: its receiver reads what was there before."""
    numbers = {each.instance for own in job.classes for _, each in _every_message(own.program)}
    for number in numbers:
        yield job.mapped(
            lambda program, number=number: without(
                program, [i for i, each in _every_message(program) if each.instance == number]
            )
        )


def _of_another_stage(job: Job) -> Mutants:
    """A kernel of another stage in the place of one with the same operands and results."""
    for own in job.classes:
        others = [each.program for each in job.classes if each is not own]
        names = {_launch(each, i).kernel for each in others for i in places(each, Launch)}
        for index, name in product(places(own.program, Launch), sorted(names)):
            launch = _launch(own.program, index)
            if name != launch.kernel and _type(job, name) == _type(job, launch.kernel):
                yield _with(job, own, index, replace(launch, kernel=name))


def _with_operands_exchanged(job: Job) -> Mutants:
    """A kernel reads two values of one size the other way round."""
    for own in job.classes:
        for index in places(own.program, Launch):
            launch = _launch(own.program, index)
            in_place = {*launch.reads} & {*launch.writes}
            for reads in () if launch.slices or in_place else _exchanged_pairs(launch.reads):
                yield _with(job, own, index, replace(launch, reads=reads))


def _exchanged_pairs(reads: Sequence[Range]) -> Iterator[tuple[Range, ...]]:
    for one, other in combinations(range(len(reads)), 2):
        if reads[one] != reads[other] and reads[one].length == reads[other].length:
            exchanged = {one: reads[other], other: reads[one]}
            yield tuple(exchanged.get(i, each) for i, each in enumerate(reads))


def _with_classes_exchanged(job: Job) -> Mutants:
    """The ranks of two stages run each other's programs."""
    for one, other in combinations(range(len(job.classes)), 2):
        ranks = [each.ranks for each in job.classes]
        ranks[one], ranks[other] = ranks[other], ranks[one]
        moved = [Class(own, each.program) for own, each in zip(ranks, job.classes, strict=True)]
        yield replace(job, classes=tuple(moved))
        named = [Class(own.ranks, replace(own.program, rank=own.ranks[0])) for own in moved]
        yield replace(job, classes=tuple(sorted(named, key=lambda each: each.ranks)))


def _without_stages(job: Job) -> Mutants:
    yield replace(job, stages=())
    yield replace(job, stages=("dp",))


def _length(where: Range | None) -> int:
    assert where is not None, "this end of a message has a place"
    return where.length


def _launch(program: Program, index: int) -> Launch:
    command = program.commands[index]
    assert isinstance(command, Launch)
    return command


def _type(job: Job, kernel: str) -> object:
    return job.kernels[kernel].reads, job.kernels[kernel].writes


# With the properties of which one must refuse the job.
CASES: dict[str, tuple[Callable[[Job], Mutants], set[str]]] = {
    "of another value": (_of_another_value, {"V11", "V2", "V6", "V7"}),
    "into another place": (_into_another_place, {"V11", "V2", "V6", "V7"}),
    "in another order": (_in_another_order, {"V4", "V5"}),
    "exchanged": (_exchanged, {"V11", "V2", "V6", "V7"}),
    "to another rank": (_to_another_rank, {"V3", "V4"}),
    "on one side": (_on_one_side, {"V4"}),
    "on neither side": (_on_neither_side, {"V11", "V7"}),
    "of another stage": (_of_another_stage, {"V11"}),
    "operands exchanged": (_with_operands_exchanged, {"V11"}),
    "classes exchanged": (_with_classes_exchanged, {"V3", "V4", "V10"}),
    "without stages": (_without_stages, {"V10"}),
}


def test_the_job_is_proven(stages: tuple[Job, Dataflow]) -> None:
    job, dataflow = stages
    assert "V11" in verify(job, dataflow=dataflow).properties
    assert job.stages == ("pp",)
    # Where a stage has several ranks, for any of them at once.
    assert holds_for_any_rank(job, dataflow) == (len(job.classes) < job.size)


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_with_stages_is_refused(name: str, stages: tuple[Job, Dataflow]) -> None:
    job, dataflow = stages
    change, properties = CASES[name]
    found = [_refused(mutant, dataflow) for mutant in change(job)]
    assert found
    assert set(found) <= properties


def _refused(job: Job, dataflow: Dataflow) -> str:
    """The property that refuses a job."""
    try:
        verify(job, dataflow=dataflow)
    except ProofError as error:
        return error.property
    return "nothing"
