"""Classes of ranks: programs are derived from one, which is proven for all; and stages run programs of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dmc.cli.simulate_tables import print_summary
from dmc.errors import ArtifactError, ProofError
from dmc.program import (
    Await,
    Buffer,
    Channel,
    Class,
    Collective,
    Job,
    Kernel,
    Lane,
    Launch,
    Operand,
    Program,
    Range,
    Record,
    Slice,
    Slot,
    Variants,
)
from dmc.proof import verify
from dmc.simulator import simulate
from dmc.simulator.summary import summarise
from tests.hand_made_jobs import round_machine
from tests.rank_programs import with_programs

replace = msgspec.structs.replace
MESH = {"dp": 2, "tp": 2}
CHANNELS = (Channel("dp", ("dp",)), Channel("tp", ("tp",)))
W, PART, SUM = Range("device", 0, 64), Range("device", 256, 16), Range("device", 512, 16)
F4, F16 = (Operand("f32", (count,)) for count in (4, 16))
KERNELS = {name: Kernel(name, (F4,), (F4,), 1, 1) for name in ("even", "odd")}
KERNELS["update"] = Kernel("update", (F16, F4), (F16,), 1, 1)
# Each rank's quarter of the weights, by a kernel of its own along tp, added up along dp.
TAKEN = Launch(
    *(0, "even", (Range("device", 0, 16),), (PART,)),
    slices=(Slice(0, {"dp": 32, "tp": 16}),),
    variants=Variants(("tp",), ("even", "odd")),
)
SUMMED = Collective(1, "all_reduce", "dp", (0, 2), 0, "f32", 4, PART, SUM, "sum", "f32")
COMMANDS = (TAKEN, Record(0, 0), Await(1, 0), SUMMED, Record(1, 1), Await(0, 1), Launch(0, "update", (W, SUM), (W,)))
PROGRAM = Program(
    0,
    {"device": 768},
    (Lane("compute", "compute"), Lane("dp", "comm", "dp")),
    (Slot("w", "parameter", "f32", (16,), W),),
    COMMANDS,
    (
        Buffer("w", "parameter", W, 0, 6),
        Buffer("w", "gradient", PART, 0, 3),
        Buffer("w", "communication", SUM, 3, 6),
    ),
)
JOB = Job(MESH, CHANNELS, KERNELS, (Class((0, 1, 2, 3), PROGRAM),))


def _with_launch(**changes: Any) -> Job:
    launch = replace(TAKEN, **changes)
    return JOB.mapped(lambda program: replace(program, commands=(launch, *program.commands[1:])))


def test_a_rank_has_its_slices_variants_and_peers() -> None:
    seen = [(each.commands[0], each.commands[3]) for each in JOB.programs]
    assert [launch.reads[0].offset for launch, _ in seen if isinstance(launch, Launch)] == [0, 16, 32, 48]
    assert [launch.kernel for launch, _ in seen if isinstance(launch, Launch)] == ["even", "odd", "even", "odd"]
    assert [moved.ranks for _, moved in seen if isinstance(moved, Collective)] == [(0, 2), (1, 3), (0, 2), (1, 3)]
    assert all(launch == replace(launch, slices=(), variants=None) for launch, _ in seen)
    assert [program.rank for program in JOB.programs] == [0, 1, 2, 3]


def test_a_class_is_proven_without_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def derived(*_: object) -> None:
        raise AssertionError("a rank's program is derived")

    monkeypatch.setattr(Job, "program", derived)
    assert "V10" in verify(JOB).properties


def test_a_job_of_more_ranks_is_as_large() -> None:
    large = Job({"dp": 2, "tp": 64}, CHANNELS, KERNELS, (Class(tuple(range(128)), PROGRAM),))
    assert len(msgspec.msgpack.encode(large)) < len(msgspec.msgpack.encode(JOB)) + 3 * 128


OTHERS: dict[str, tuple[Callable[[], Job], str]] = {
    "twice": (lambda: replace(JOB, classes=(*JOB.classes, Class((3,), replace(PROGRAM, rank=3)))), "rank 3 is in 2"),
    "in none": (lambda: replace(JOB, classes=(Class((0, 1, 2), PROGRAM),)), "the mesh has 4 ranks, but 3 up to 2"),
    "elsewhere": (lambda: replace(JOB, classes=(Class((0, 1, 2, 4), PROGRAM),)), "the mesh has 4 ranks, but 4 up to 4"),
    "of another rank": (lambda: replace(JOB, classes=(Class((1, 0, 2, 3), PROGRAM),)), "has the program of rank 0"),
    "no read": (lambda: _with_launch(slices=(Slice(1, {"dp": 16}),)), "a slice of read 1 along dp, which does not"),
    "no axis": (lambda: _with_launch(slices=(Slice(0, {"pp": 16}),)), "a slice of read 0 along pp, which does not"),
    "two slices": (lambda: _with_launch(slices=2 * TAKEN.slices), "two slices of one read"),
    "few variants": (lambda: _with_launch(variants=Variants(("tp",), ("even",))), "1 kernels are not one for each"),
    "variants of no axis": (lambda: _with_launch(variants=Variants(("pp",), ("even", "odd"))), "along pp"),
    "another kernel": (lambda: _with_launch(kernel="odd"), "@odd is not the kernel of rank 0"),
    "another group": (
        lambda: JOB.mapped(
            lambda each: replace(each, commands=(*COMMANDS[:3], replace(SUMMED, ranks=(0, 1)), *COMMANDS[4:]))
        ),
        "[0, 1] are no group of channel dp that rank 0 is in",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_ranks_cannot_be_derived_from_is_refused(name: str) -> None:
    """By who reads it, and by the proof of what was not read."""
    job, fact = OTHERS[name][0](), OTHERS[name][1]
    with pytest.raises(ArtifactError, match=re.escape(fact)):
        Job.from_bytes(job.to_bytes())
    with pytest.raises(ProofError) as caught:
        verify(job)
    assert caught.value.property == "V3"


@pytest.mark.parametrize(
    ("changes", "property", "fact"),
    [
        # Only the last rank reads behind the arena, or what another command writes.
        ({"slices": (Slice(0, {"dp": 640, "tp": 128}),)}, "V3", "outside the arena of 768 bytes"),
        ({"slices": (Slice(0, {"dp": 128, "tp": 128}),)}, "V3", "writes device [256, 272) over its operand"),
        ({"slices": (Slice(0, {"dp": 32, "tp": 32}),)}, "V7", "neither within one value"),
        ({"slices": (Slice(0, {"dp": 8, "tp": 16}),)}, "V10", "8 bytes further on for each step along dp"),
        ({"variants": Variants(("tp",), ("even", "update"))}, "V3", "its kernel has 2"),
    ],
)
def test_what_another_rank_of_the_class_does_is_proven(changes: dict[str, Any], property: str, fact: str) -> None:
    with pytest.raises(ProofError, match=re.escape(fact)) as caught:
        verify(_with_launch(**changes))
    assert caught.value.property == property


def test_a_rank_that_leaves_its_class_is_refused() -> None:
    own = JOB.program(3)
    other = replace(own, commands=(replace(TAKEN, slices=(), variants=None), *own.commands[1:]))
    with pytest.raises(ProofError, match="is where rank 0 has launch of @odd") as caught:
        verify(with_programs(JOB, [other]))
    assert caught.value.property == "V10"


def _stage(rank: int, sends: bool, peer: int) -> Program:
    """A stage of a pipeline that updates what it has, and sends or receives; the second has more of everything."""
    inbox = Range("device", 512, 64)
    ends = (W, None) if sends else (None, inbox)
    message = Collective(1, "send" if sends else "recv", "pp", (rank % 2, rank % 2 + 2), 0, "f32", 16, *ends, peer=peer)
    slots = (Slot("first" if sends else "second", "parameter", "f32", (16,), W),)
    if sends:
        commands = (message,)
        buffers = (Buffer("first", "parameter", W, 0, 0),)
        return Program(rank, {"device": 256}, LANES, slots, commands, buffers)
    commands = (message, Record(1, 0), Await(0, 0), Launch(0, "sum", (W, inbox), (W,)))
    buffers = (Buffer("second", "parameter", W, 0, 3), Buffer("in", "activation", inbox, 0, 3))
    lanes = (*LANES, Lane("in", "copy_in"))
    return Program(rank, {"device": 768}, lanes, slots, commands, buffers)


LANES = (Lane("compute", "compute"), Lane("pp", "comm", "pp"))
PIPELINE = Job(
    {"pp": 2, "dp": 2},
    (Channel("pp", ("pp",)),),
    {"sum": Kernel("sum", (F16, F16), (F16,), 1, 1)},
    (Class((0, 1), _stage(0, True, 1)), Class((2, 3), _stage(2, False, 0))),
    ("pp",),
)


def test_a_channel_along_an_axis_twice_is_refused() -> None:
    """Its groups would be as many as ranks, squared, and more with each time."""
    job = replace(JOB, channels=(Channel("dp", ("dp", "dp")), CHANNELS[1]))
    with pytest.raises(ArtifactError, match="there is no channel dp of this mesh"):
        Job.from_bytes(job.to_bytes())
    with pytest.raises(ProofError, match="along an axis twice"):
        verify(job)


def test_stages_run_programs_of_their_own() -> None:
    assert verify(Job.from_bytes(PIPELINE.to_bytes())).peaks == {"device": 768}
    assert len(simulate(PIPELINE, round_machine()).programs) == 4


def test_a_simulation_says_how_long_stages_are_idle(capsys: pytest.CaptureFixture[str]) -> None:
    """The first stage computes nothing, the second one kernel."""
    simulation = simulate(PIPELINE, round_machine())
    summary = summarise(simulation)
    (kernel,) = {span.end - span.start for span in simulation.by_rank[2] if span.lane == 0}
    assert summary.idle_share == pytest.approx(1 - kernel / simulation.step_ns / 2)
    assert (summary.most_idle.rank, summary.most_idle.busy) == (0, 0)
    print_summary(summary, (), 160)
    share = f"{100 * summary.idle_share:.1f} %"
    assert (
        f"stages along pp: ranks are idle for {share} of the step, most of all rank 0 100.0 %"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("job", "property", "fact"),
    [
        (replace(PIPELINE, stages=()), "V10", "its arenas differ from rank 0's"),
        (replace(PIPELINE, stages=("dp",)), "V10", "are one class, but of several stages"),
        (replace(PIPELINE, stages=("tp",)), "V10", "has stages along tp"),
        (replace(PIPELINE, stages=("pp", "pp")), "V10", "has stages along pp, pp: an axis twice"),
        (
            replace(PIPELINE, classes=(PIPELINE.classes[0], Class((2, 3), _stage(2, False, 1)))),
            "V3",
            "is a message of rank 2 to itself",
        ),
        (
            replace(PIPELINE, classes=(PIPELINE.classes[0], Class((2, 3), _stage(2, True, 0)))),
            "V4",
            "rank 0 issues send #0, its command 0, but rank 2 nothing more",
        ),
    ],
)
def test_stages_that_do_not_fit_are_refused(job: Job, property: str, fact: str) -> None:
    with pytest.raises(ProofError, match=re.escape(fact)) as caught:
        verify(job)
    assert caught.value.property == property
