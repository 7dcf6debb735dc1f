"""What IREE's stream-level program shows of a step: state in place, one allocation, repeated layers compiled once."""

from __future__ import annotations

import re

import pytest
import torch

import dmc
from dmc.api import compile_artifact
from dmc.lowering.iree import schedule_of
from dmc.runtime.artifact import Artifact
from dmc.target import CPU
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

VOCABULARY, CONTEXT = 64, 16
CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : index")
COPY = re.compile(r"stream\.cmd\.copy %\w+\[%\w+\], %\w+\[%\w+\], (%\w+) :")
ALLOCATION = re.compile(r"stream\.resource\.alloca? .*!stream\.resource<(\w+)>\{(%\w+)\}")


def _artifact(layers: int) -> Artifact:
    torch.manual_seed(0)
    model = GPT(Shape(vocabulary=VOCABULARY, context=CONTEXT, width=64, layers=layers, dropout=0.1))
    optimizer = dmc.optim.AdamW(lr=1e-3, weight_decay=0.1, clip_grad_norm=1.0)
    example = token_batch(0, 4, CONTEXT, VOCABULARY)
    return compile_artifact(model, loss=token_loss, optimizer=optimizer, example=example, executor="iree")


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return _artifact(layers=2)


@pytest.fixture(scope="module")
def schedule(artifact: Artifact) -> str:
    return schedule_of(artifact.ir["03-lowered"], CPU).decode()


def _body(schedule: str) -> str:
    return schedule[schedule.index("util.func public @step") :]


def test_state_is_updated_in_place(artifact: Artifact, schedule: str) -> None:
    body = _body(schedule)
    constants = {name: int(value) for name, value in CONSTANT.findall(schedule)}
    taken = [constants[size] for kind, size in ALLOCATION.findall(body) if kind == "external"]
    slots = 64 * len(artifact.signature.outputs)  # IREE aligns each to 64 bytes.
    assert sum(taken) <= slots, "beside its temporaries a step allocates its loss and its flag, and no new state"

    returned = re.findall(r"%\w+", body[body.rindex("util.return") :].split(":", 1)[0])
    signature = artifact.signature
    passed = [spec.name for spec in signature.passed]
    arguments = [*passed, *(spec.name for spec in (*signature.controls, *signature.batch, *signature.arenas))]
    tied = [arguments.index(name) for name in ("step", *(arena.name for arena in signature.arenas))]
    assert returned[: signature.first_output] == [f"%arg{i}" for i in tied], "new state is the argument's own buffer"


def test_neither_state_nor_gradients_are_copied(schedule: str) -> None:
    body = _body(schedule)
    constants = {name: int(value) for name, value in CONSTANT.findall(schedule)}
    sizes = [constants[size] for size in COPY.findall(body)]
    assert len(sizes) == body.count("stream.cmd.copy")
    assert all(size <= 8 for size in sizes), "only scalars are copied, on their way into the fence"


def test_one_kernel_updates_all_parameters(artifact: Artifact, schedule: str) -> None:
    lines = _body(schedule).splitlines()
    (length,) = {arena.length for arena in artifact.signature.arenas}
    written = [line for line in lines if re.search(rf"rw %\w+\[%c0\w* for %c{4 * length}\w*\]", line)]
    assert len(written) == len(artifact.signature.arenas) == 3


def test_temporaries_are_one_allocation(schedule: str) -> None:
    body = _body(schedule)
    assert body.count("stream.cmd.execute") == 1, "barriers do not cut the step into regions"
    assert len([kind for kind, _ in ALLOCATION.findall(body) if kind == "transient"]) == 1


def test_repeated_layers_are_compiled_once(schedule: str) -> None:
    deeper = schedule_of(_artifact(layers=4).ir["03-lowered"], CPU).decode()
    assert deeper.count("stream.cmd.dispatch @") > 1.5 * schedule.count("stream.cmd.dispatch @")
    # The sum over all gradients for clipping has one more term per parameter; nothing else may differ.
    assert deeper.count("stream.executable private") == schedule.count("stream.executable private")
