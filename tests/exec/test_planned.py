"""Planned jobs through IREE: kernels at the job's places, in the job's order, with nothing allocated in a step."""

from __future__ import annotations

import numpy as np
import pytest
from iree.compiler import compile_str

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import ArtifactError, DmcError
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.stream import program as stream_program
from dmc.lowering.stream.program import compile_job, stream_module
from dmc.program import Await, Collective, Job, Launch, Move, Range, Record
from dmc.runtime.sessions.iree.device import Device
from dmc.runtime.sessions.iree.planned import PlannedSession
from dmc.target import CPU
from tests.planned_jobs import COMM, COMPUTE, COPY_IN, COPY_OUT, Draft, run, session, signature_of

KERNELS = """
func.func private @product(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%fill : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func private @twice(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%fill : tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = linalg.matmul ins(%y, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%fill : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
func.func private @add(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %z = arith.addf %x, %y : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}
func.func private @add_row(%x: tensor<7xf32>, %y: tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>) {
  %z = arith.addf %x, %y : tensor<7xf32>
  %p = arith.mulf %x, %y : tensor<7xf32>
  return %z, %p : tensor<7xf32>, tensor<7xf32>
}
func.func private @ones() -> tensor<5xi64> {
  %one = arith.constant dense<1> : tensor<5xi64>
  return %one : tensor<5xi64>
}
"""


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers drawn by `seed`."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def training(ranks: int = 2) -> Job:
    """Each rank multiplies its batch with its weights, all add their batches' weights to them, in place."""
    draft = Draft(ranks)
    w = draft.slot("w", "parameter", "f32", (8, 8))
    x, g = draft.load("x", "f32", (4, 8)), draft.load("g", "f32", (8, 8))
    y = draft.room("f32", (4, 8))
    draft.order(COPY_IN, COMPUTE)
    draft.order(COPY_IN, COMM)
    draft.collective("all_reduce", "f32", 64, g, g, reduction="sum", accumulate="f32")
    draft.launch("twice", [x, w], [y], draft.room("f32", (4, 8)))
    draft.order(COMM, COMPUTE)
    draft.launch("add", [w, g], [w])
    draft.order(COMPUTE, COPY_OUT)
    draft.store("y", "f32", (4, 8), y)
    return draft.job()


def test_steps_run_ahead_and_state_stays() -> None:
    state = [normal(8, 8, seed=rank) for rank in range(2)]
    loaded = session(training(), KERNELS, {"w": state})
    inputs = [{name: [normal(*shape, seed=10 * step + rank + offset) for rank in range(2)]
               for name, shape, offset in (("x", (4, 8), 100), ("g", (8, 8), 900))} for step in range(5)]  # fmt: skip
    # All steps are issued before any output is read: outputs outlive the memory that they came in.
    issued = [loaded.issue([], [*each["x"], *each["g"]]) for each in inputs]
    for (entry, readings), given in zip(issued, inputs, strict=True):
        for rank, reading in enumerate(readings):
            np.testing.assert_allclose(
                loaded.fetch(reading, entry), given["x"][rank] @ state[rank] @ state[rank], rtol=1e-4, atol=1e-4
            )
        state = [own + (given["g"][0] + given["g"][1]) for own in state]
    for rank in range(2):
        np.testing.assert_array_equal(loaded.read_state(rank), state[rank])
    loaded.write_state([np.zeros((8, 8), np.float32)] * 2)
    assert not loaded.read_state(1).any()
    loaded.close()
    with pytest.raises(DmcError, match="is closed"):
        loaded.read_state(0)


def test_the_step_may_be_cut_into_many_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    state = [normal(8, 8, seed=rank) for rank in range(2)]
    given = {"x": [normal(4, 8, seed=5)] * 2, "g": [normal(8, 8, seed=rank) for rank in (6, 7)]}
    outputs: list[bytes] = []
    for commands in (500, 1):
        monkeypatch.setattr(stream_program, "_PART", commands)
        assert stream_module(training(), _code(training())).count("util.call") == (1 if commands == 500 else 9)
        loaded = session(training(), KERNELS, {"w": state})
        outputs.append(b"".join(each.tobytes() for each in run(loaded, given)["y"]))
        loaded.close()
    assert outputs[0] == outputs[1]


def test_a_step_allocates_nothing() -> None:
    loaded = session(training(), KERNELS)
    batch = [normal(4, 8)] * 2 + [normal(8, 8)] * 2
    entry, _ = loaded.issue([], batch)
    loaded.wait(entry)
    # The runtime opens a device once.
    allocator = Device("cpu").hal.allocator
    assert allocator.has_statistics
    before = allocator.statistics
    for _ in range(3):
        entry, _ = loaded.issue([], batch)
    loaded.wait(entry)
    after = allocator.statistics
    loaded.close()
    assert after == before


def test_iree_adds_no_allocation_and_no_copy() -> None:
    job = training()
    text = stream_module(job, _code(job))
    lowered = compile_str(text, extra_args=[*CPU.iree_flags, "--compile-from=stream", "--compile-to=hal"])
    assert lowered is not None
    assert b"hal.device.queue.execute" in lowered
    assert b"queue.alloca" not in lowered
    assert b"allocator.allocate" not in lowered
    moves = sum(isinstance(command, Move) for program in job.programs for command in program.commands)
    # A collective in place over two ranks copies its total to the second.
    assert text.count("stream.cmd.copy") == moves + 1


def test_views_that_begin_anywhere() -> None:
    draft = Draft(1)
    x, y = draft.load("x", "f32", (3, 7)), draft.load("y", "f32", (3, 7))
    z, p = draft.room("f32", (3, 7)), draft.room("f32", (3, 7))
    draft.order(COPY_IN, COMPUTE)
    for i in range(3):
        rows = [Range("device", each.offset + i * 28, 28) for each in (x, y, z, p)]
        draft.launch("add_row", rows[:2], rows[2:])
    draft.order(COMPUTE, COPY_OUT)
    draft.store("z", "f32", (3, 7), z)
    draft.store("p", "f32", (3, 7), p)
    given = {"x": [normal(3, 7, seed=1)], "y": [normal(3, 7, seed=2)]}
    loaded = session(draft.job(), KERNELS)
    outputs = run(loaded, given)
    loaded.close()
    np.testing.assert_array_equal(outputs["z"][0], given["x"][0] + given["y"][0])
    np.testing.assert_array_equal(outputs["p"][0], given["x"][0] * given["y"][0])


def test_a_kernel_without_operands() -> None:
    draft = Draft(1)
    ones = draft.room("i64", (5,))
    draft.launch("ones", [], [ones])
    draft.order(COMPUTE, COPY_OUT)
    draft.store("ones", "i64", (5,), ones)
    loaded = session(draft.job(), KERNELS)
    np.testing.assert_array_equal(run(loaded, {})["ones"][0], np.ones(5, np.int64))
    loaded.close()


def test_send_and_receive() -> None:
    draft = Draft(2)
    x, y = draft.load("x", "f32", (4, 8)), draft.room("f32", (4, 8))
    draft.order(COPY_IN, COMM)
    draft.commands[0].append(Collective(COMM, "send", "all", (0, 1), 5, "f32", 32, x, None, peer=1))
    draft.commands[1].append(Collective(COMM, "recv", "all", (0, 1), 5, "f32", 32, None, y, peer=0))
    draft.commands[0].append(Collective(COMM, "recv", "all", (0, 1), 6, "f32", 32, None, y, peer=1))
    draft.commands[1].append(Collective(COMM, "send", "all", (0, 1), 6, "f32", 32, x, None, peer=0))
    draft.order(COMM, COPY_OUT)
    draft.store("y", "f32", (4, 8), y)
    given = {"x": [normal(4, 8, seed=rank) for rank in range(2)]}
    loaded = session(draft.job())
    outputs = run(loaded, given)
    loaded.close()
    np.testing.assert_array_equal(outputs["y"], given["x"][::-1])


def test_lanes_that_wait_for_each_other() -> None:
    draft = Draft(2)
    draft.collective("broadcast", "f32", 1, draft.room("f32", (1,)), draft.room("f32", (1,)), peer=0)
    draft.commands[1].insert(0, Await(COMM, 0))
    draft.commands[1] += [Record(COMM, 0)]
    with pytest.raises(DmcError, match=r"the ranks .1. in broadcast 0.*rank 1, lane 1, for event 0"):
        stream_module(draft.job(), _code(draft.job()))


def test_a_result_over_an_operand_that_is_still_read() -> None:
    draft = Draft(1)
    x, w = draft.room("f32", (4, 8)), draft.room("f32", (8, 8))
    draft.launch("twice", [x, w], [Range("device", w.offset, 128)], draft.room("f32", (4, 8)))
    with pytest.raises(DmcError, match="V12: writes result 0 over part of an operand"):
        stream_module(draft.job(), _code(draft.job()))


def test_a_job_of_other_tensors_is_refused() -> None:
    job = training()
    code = compile_job(job, _code(job), CPU).data
    other = Draft(2)
    other.slot("w", "parameter", "f32", (4, 8))
    with pytest.raises(ArtifactError, match=r"has 'w@0' as f32\[8, 8\], not as f32\[4, 8\]"):
        PlannedSession(Device("cpu"), signature_of(other.job()), job, code, [])


def _code(job: Job) -> CodeLibrary:
    commands = [command for own in job.programs for command in own.commands]
    names = {command.kernel for command in commands if isinstance(command, Launch)}
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return compile_kernels(ir.Module.parse(KERNELS), names, CPU)
