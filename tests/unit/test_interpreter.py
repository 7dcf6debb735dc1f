"""Jobs run in numpy: one result whatever the interleaving, another where something is not ordered."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from dmc.dtypes import Array, numpy_type
from dmc.errors import DmcError, InputError
from dmc.interpreter import Deadlock, mixing_kernels, run
from dmc.interpreter.slots import INPUTS, OUTPUT
from dmc.program import Await, Command, Job, Kernel, Lane, Launch, Move, Operand, Program, Range, Record, Slot
from tests.random_jobs import random_job
from tests.rank_programs import with_programs

Bits = list[list[tuple[str, bytes]]]
LANES = (Lane("compute", "compute"), Lane("out", "copy_out"))
VECTOR = Operand("i32", (4,))
KERNELS = {
    "add": Kernel("add", (VECTOR, VECTOR), (VECTOR,), 4, 48),
    "double": Kernel("double", (VECTOR,), (VECTOR,), 4, 32),
    "scratch": Kernel("scratch", (VECTOR,), (VECTOR,), 4, 32, scratch=16),
}
FUNCTIONS = {
    "add": lambda operands: [operands[0] + operands[1]],
    "double": lambda operands: [operands[0] * 2],
    "scratch": lambda operands: [operands[0] * 2],
}
X, Y, Z, S = (Range("device", offset, 16) for offset in (0, 256, 512, 768))
OUT = Range("pinned_host", 0, 16)
STATE, LOSS = Slot("w", "parameter", "i32", (4,), X), Slot("loss", "output", "i32", (4,), OUT)
ONES = np.ones(4, np.int32)


def job_of(*commands: Command, slots: tuple[Slot, ...] = (STATE, LOSS), lanes: tuple[Lane, ...] = LANES) -> Job:
    """A job of one rank."""
    program = Program(0, {"device": 1024, "pinned_host": 256}, lanes, slots, commands)
    return Job.of({"dp": 1}, (), KERNELS, (program,))


def step(job: Job, seed: int = 0, **options: Any) -> tuple[list[int], list[int]]:
    """Loss and state after a step of the job of one rank, from ones."""
    outputs, state = run(job, FUNCTIONS, [{"w": ONES}], [{}], seed, **options)
    return outputs[0]["loss"].tolist(), state[0]["w"].tolist()


def ports(job: Job, seed: int) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    """Random state and inputs of a job."""
    random = np.random.default_rng(seed)
    state: list[dict[str, Array]] = []
    inputs: list[dict[str, Array]] = []
    for program in job.programs:
        given = {s: random.integers(-9, 9, s.shape).astype(numpy_type(s.dtype)) for s in program.slots}
        state.append({s.name: array for s, array in given.items() if s.role not in (*INPUTS, OUTPUT)})
        inputs.append({s.name: array for s, array in given.items() if s.role in INPUTS})
    return state, inputs


def bits(job: Job, seed: int, given: tuple[Any, Any], **options: Any) -> Bits:
    """All that the ranks leave after a step with mixing kernels."""
    left = run(job, mixing_kernels(job), *given, seed, **options)
    return [[(name, array.tobytes()) for name, array in ports.items()] for each in left for ports in each]


@pytest.mark.parametrize("number", range(24))
def test_a_legal_job_gives_the_same_bits_in_every_interleaving(number: int) -> None:
    job = random_job(number)
    given = ports(job, number)
    assert [bits(job, seed, given) for seed in range(6)] == [bits(job, 0, given)] * 6


def test_interleavings_differ() -> None:
    """Otherwise the test above would be vacuous: in some, a lane that need not wait is far ahead."""
    begun: set[tuple[str, ...]] = set()
    job = job_of(
        *(Launch(lane, name, (X,), (target,)) for lane, name, target in ((0, "a", Y), (0, "b", Y), (1, "c", Z)))
    )
    for seed in range(40):
        order: list[str] = []

        def kernel(name: str, order: list[str] = order) -> Any:
            return lambda operands: order.append(name) or operands

        functions = {name: kernel(name) for name in "abc"}
        run(msgspec.structs.replace(job, kernels=dict.fromkeys("abc", KERNELS["double"])), functions, *_ones(), seed)
        begun.add(tuple(order))
    assert begun == {("a", "b", "c"), ("a", "c", "b"), ("c", "a", "b")}


def _ones() -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    return [{"w": ONES}], [{}]


def test_a_missing_await_shows() -> None:
    """Each await of these jobs is needed: without it, some interleaving gives other bits."""
    shown = 0
    for number in range(12):
        job = random_job(number)
        given, random = ports(job, number), Random(number)
        program = random.choice([each for each in job.programs if any(isinstance(c, Await) for c in each.commands)])
        place = random.choice([i for i, command in enumerate(program.commands) if isinstance(command, Await)])
        commands = (*program.commands[:place], *program.commands[place + 1 :])
        racing = with_programs(job, [msgspec.structs.replace(program, commands=commands)])
        wanted = bits(job, 0, given)
        shown += any(bits(racing, seed, given) != wanted for seed in range(40))
    # Some awaits only keep communicators apart, which no rank can see in its memory.
    assert shown >= 11


def test_a_race_goes_both_ways_on_request() -> None:
    job = job_of(Launch(0, "double", (X,), (Y,)), Move(1, Y, OUT))
    assert step(job, held={(0, 1): (0, 0)})[0] == [2] * 4
    assert step(job, held={(0, 0): (0, 1)})[0] != [2] * 4
    ordered = job_of(Launch(0, "double", (X,), (Y,)), Record(0, 0), Await(1, 0), Move(1, Y, OUT))
    assert {tuple(step(ordered, seed)[0]) for seed in range(40)} == {(2,) * 4}
    with pytest.raises(Deadlock) as caught:
        step(ordered, held={(0, 0): (0, 3)})
    assert caught.value.fact.splitlines()[1:] == [
        "  rank 0, lane compute, command 0 waits for command 3 of rank 0, as requested",
        "  rank 0, lane out, command 2 waits for event 0, which lane compute records at its command 1",
    ]


def test_a_command_may_write_from_its_begin() -> None:
    """A move out of a range that a kernel is about to write anew: what it finds meanwhile is neither old nor new."""
    job = job_of(Launch(0, "double", (X,), (Y,)), Launch(0, "add", (X, X), (Y,)), Move(1, Y, OUT))
    found = {tuple(step(job, seed, held={(0, 2): (0, 0)})[0]) for seed in range(200)}
    assert (2,) * 4 in found
    assert len(found) > 2


def test_work_in_place_reads_before_it_writes() -> None:
    job = job_of(
        Launch(0, "double", (X,), (X,)), Launch(0, "add", (X, X), (X,)), Record(0, 0), Await(1, 0), Move(1, X, OUT)
    )
    assert {step(job, seed) == ([4] * 4, [4] * 4) for seed in range(20)} == {True}


def test_a_target_that_overlaps_a_source_in_part_gives_noise() -> None:
    shifted = Range("device", X.offset + 8, X.length)
    job = job_of(Launch(0, "double", (X,), (shifted,)), Record(0, 0), Await(1, 0), Move(1, shifted, OUT))
    assert len({tuple(step(job, seed)[0]) for seed in range(10)}) == 10


def test_what_nobody_wrote_is_noise() -> None:
    job = job_of(Move(1, Z, OUT))
    assert step(job, 1) == step(job, 1)
    assert step(job, 1)[0] != step(job, 2)[0]
    assert step(job, 1)[1] == [1] * 4


def test_who_writes_to_scratch_breaks_the_kernel() -> None:
    job = job_of(Launch(0, "scratch", (X,), (Y,), S), Launch(1, "double", (X,), (S,)), Move(0, Y, OUT))
    results = [step(job, seed)[0] == [2] * 4 for seed in range(100)]
    assert True in results
    assert False in results


def test_state_goes_on_from_step_to_step() -> None:
    job = job_of(Launch(0, "double", (X,), (X,)), Move(0, X, OUT))
    state: list[Any] = [{"w": ONES}]
    for number in range(1, 4):
        outputs, state = run(job, FUNCTIONS, state, [{}], number)
        assert outputs[0]["loss"].tolist() == [2**number] * 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "state are []; they must be ['w']"),
        ({"w": ONES, "v": ONES}, "state are ['v', 'w']; they must be ['w']"),
        ({"w": ONES.astype(np.int64)}, "'w': is int64 of shape (4,); it must be int32 of shape (4,)"),
        ({"w": ONES[:2]}, "'w': is int32 of shape (2,); it must be int32 of shape (4,)"),
    ],
)
def test_arrays_fit_their_slots(given: dict[str, Array], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run(job_of(Move(1, X, OUT)), FUNCTIONS, [given], [{}], 0)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            Move(1, Range("device", 1020, 16), OUT),
            "device [1020, 1036): is out of bounds: the rank has an arena of 1024",
        ),
        (Move(1, Range("host", 0, 16), OUT), "host [0, 16): is out of bounds: the rank has no arena"),
        (Move(1, Range("device", 0, 8), OUT), "pinned_host [0, 16): 8 bytes are written to 16"),
        (Launch(0, "double", (Range("device", 0, 12),), (Y,)), "12 bytes do not form a tensor of i32 and shape [4]"),
    ],
)
def test_ranges_are_checked(command: Command, message: str) -> None:
    with pytest.raises(DmcError) as caught:
        step(job_of(command))
    assert message in str(caught.value)


def test_an_event_that_nobody_records() -> None:
    with pytest.raises(Deadlock, match="waits for event 7, which nobody records"):
        step(job_of(Await(0, 7)))


def test_every_byte_matters_to_a_mixing_kernel() -> None:
    operand = Operand("f32", (8,))
    types = tuple(Operand(dtype, (3, 5)) for dtype in ("f32", "bf16", "i1", "i32", "i64"))
    kernels = {name: Kernel(name, (operand, operand), types, 0, 0) for name in ("one", "other")}
    functions = mixing_kernels(replace_kernels(job_of(), kernels))
    a, b = np.zeros(8, np.float32), np.ones(8, np.float32)
    first = functions["one"]([a, b])
    assert [(array.dtype, array.shape) for array in first] == [(numpy_type(t.dtype), t.shape) for t in types]
    changed = a.copy()
    changed.view(np.uint8)[-1] ^= 1
    for others in (functions["one"]([changed, b]), functions["one"]([b, a]), functions["other"]([a, b])):
        assert [one.tobytes() != other.tobytes() for one, other in zip(first, others, strict=True)] == [True] * 5
    assert [array.tobytes() for array in functions["one"]([a, b])] == [array.tobytes() for array in first]


def replace_kernels(job: Job, kernels: dict[str, Kernel]) -> Job:
    """The job with other kernels."""
    return msgspec.structs.replace(job, kernels=kernels)
