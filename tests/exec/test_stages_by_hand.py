"""Steps whose ranks run different programs: those of one stage do everything, those of the other hold a frozen weight.

Otherwise the step is one of two data-parallel ranks, and gives the same bits as that with equal programs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

import dmc
from dmc import dialect
from dmc._mlir import ir
from dmc.cli.main import main
from dmc.compiled_step import CompiledStep
from dmc.errors import InputError
from dmc.forms import PLANNED, SCHEDULED
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.stream.program import compile_job
from dmc.pipeline import stem
from dmc.program import Buffer, Class, Collective, Command, Move, Program, Range, Space, aligned
from dmc.program.certificate import PROPERTIES
from dmc.proof import verify
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.tensors.holders import with_holders
from dmc.target import CPU
from dmc.verification.forms import Forms
from tests.compiled import assert_same_bits

FROZEN = "0.weight"
BATCH = (torch.linspace(-1, 1, 32).reshape(4, 8), torch.linspace(0, 1, 16).reshape(4, 4))


def _model() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.BatchNorm1d(6), nn.Linear(6, 4))
    model[0].weight.requires_grad_(False)
    return model


@functools.cache
def _equal() -> Artifact:
    """In which the ranks along "pp" do the same."""
    plan = dmc.plan(dmc.Mesh(dp=2, pp=2)).data_parallel("dp", zero=1)
    optimizer = dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0)
    return dmc.compile_artifact(
        _model(), loss=nn.functional.mse_loss, optimizer=optimizer, example=BATCH, plan=plan, progress=False
    )


def _idle(program: Program) -> Program:
    (slot,) = [slot for slot in program.slots if slot.name == FROZEN]
    # What a program does not use, the proof refuses.
    copied = Range("device", aligned(slot.range.end), slot.range.length)
    buffers = (Buffer(FROZEN, "parameter", slot.range, 0, 0), Buffer(FROZEN, "activation", copied, 0, 0))
    arenas: dict[Space, int] = {"device": aligned(copied.end)}
    commands = (Move(0, slot.range, copied),)
    return msgspec.structs.replace(program, arenas=arenas, slots=(slot,), commands=commands, buffers=buffers)


@functools.cache
def _staged(stage: int) -> Artifact:
    """In which those of one stage do it."""
    whole = _equal()
    (every,) = whole.job.classes

    def of_stage(command: Command) -> Command:
        if not isinstance(command, Collective):
            return command
        return msgspec.structs.replace(command, ranks=tuple(rank + stage for rank in command.ranks))

    busy = msgspec.structs.replace(every.program, rank=stage, commands=tuple(map(of_stage, every.program.commands)))
    programs = sorted([busy, _idle(msgspec.structs.replace(every.program, rank=1 - stage))], key=lambda own: own.rank)
    classes = tuple(Class((own.rank, own.rank + 2), own) for own in programs)
    job = msgspec.structs.replace(whole.job, classes=classes, stages=("pp",))
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        code = compile_kernels(ir.Module.parse(whole.ir[stem(SCHEDULED)]), job.kernels, CPU)
    modules = {"cpu": compile_job(job, code, CPU).data}
    # The recorder knows no such stages, so nothing is known of what the job computes (V11).
    certificate = msgspec.structs.replace(verify(job), properties=PROPERTIES).with_code(modules, None)
    signature = with_holders(whole.signature, job)
    return replace(whole, job=job, modules=modules, certificate=certificate, signature=signature)


@pytest.fixture(params=[0, 1])
def stage(request: pytest.FixtureRequest) -> int:
    return request.param


def _trained(step: CompiledStep) -> list[float]:
    return [float(step(*BATCH)) for _ in range(3)]


def test_equal_programs_have_every_tensor() -> None:
    assert _equal().signature.holders == {}


def test_it_trains_as_ranks_with_equal_programs_do(stage: int) -> None:
    whole, step = CompiledStep(_equal()), CompiledStep(_staged(stage))
    holders = step.signature.holders
    assert FROZEN not in holders and {*holders.values()} == {(stage, stage + 2)}
    assert {"3.weight", "3.weight.exp_avg", "2.running_mean", "step", "lr", "loss", "finite"} < {*holders}
    assert _trained(step) == _trained(whole)
    assert_same_bits(step.state_dict(), whole.state_dict())
    assert step.differing_replicas() == ()
    assert step.steps_done == 3
    updated, expected = _model(), _model()
    step.update(updated)
    whole.update(expected)
    assert_same_bits(updated.state_dict(), expected.state_dict())


def test_a_rank_has_what_its_program_has(stage: int) -> None:
    step = CompiledStep(_staged(stage))
    idle, busy = (step.rank_state_dict(rank) for rank in (1 - stage, stage))
    assert ([*idle["model"]], [*idle["optimizer"]]) == ([FROZEN], [])
    assert {"3.weight", "2.running_mean", FROZEN} < {*busy["model"]}
    assert busy["optimizer"]["3.weight.exp_avg"].shape == (2, 6)


def test_batches_are_checked_as_ever(stage: int) -> None:
    step = CompiledStep(_staged(stage))
    with pytest.raises(InputError, match=r"expected f32\[4, 8\], got f32\[3, 8\]"):
        step(BATCH[0][:3], BATCH[1])


def _by_state_dict(whole: CompiledStep, step: CompiledStep, _: Path) -> CompiledStep:
    step.load_state_dict(whole.state_dict())
    return step


def _by_checkpoint(whole: CompiledStep, step: CompiledStep, folder: Path) -> CompiledStep:
    kept = dmc.Checkpoints(whole, folder)
    kept.save()
    kept.wait()
    assert dmc.Checkpoints(step, folder).resume() == whole.steps_done
    return step


def _by_file(whole: CompiledStep, step: CompiledStep, folder: Path) -> CompiledStep:
    _by_state_dict(whole, step, folder).save(folder / "step.dmc")
    return CompiledStep.load(folder / "step.dmc")


@pytest.mark.parametrize("way", [_by_state_dict, _by_checkpoint, _by_file])
@pytest.mark.parametrize("is_from", [False, True])
def test_a_state_fits_both(
    stage: int, is_from: bool, way: Callable[[CompiledStep, CompiledStep, Path], CompiledStep], tmp_path: Path
) -> None:
    pair = (CompiledStep(_staged(stage)), CompiledStep(_equal()))
    first, second = pair if is_from else pair[::-1]
    _trained(first)
    other = way(first, second, tmp_path)
    assert_same_bits(other.state_dict(), first.state_dict())
    assert _trained(other) == _trained(first)


def test_weights_are_written_and_read(stage: int, tmp_path: Path) -> None:
    step, other = CompiledStep(_staged(stage)), CompiledStep(_staged(1 - stage))
    _trained(step)
    step.save_weights(tmp_path)
    other.load_weights(tmp_path)
    assert_same_bits(other.state_dict()["model"], step.state_dict()["model"])


def test_first_values_go_to_those_that_hold_them(stage: int) -> None:
    whole, step = CompiledStep(_equal()), CompiledStep(_staged(stage))
    for each in (whole, step):
        each.initialise(_model, seed=5)
    assert_same_bits(step.state_dict(), whole.state_dict())
    assert step.fingerprints == whole.fingerprints


def test_the_planned_form_is_interpreted(stage: int) -> None:
    """Whoever has a tensor is asked for it."""
    batch = {spec.name: each.numpy() for spec, each in zip(_equal().signature.batch, BATCH, strict=True)}
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        left, expected = (Forms(each, batch, (1e-2,)).one(stem(PLANNED)) for each in (_staged(stage), _equal()))
    assert left.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(left[name], array, err_msg=name)


def test_it_is_inspected(stage: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "step.dmc")
    _staged(stage).write(path)
    assert main(["inspect", path]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"loss f32[], on ranks {stage}, {stage + 2}" in lines
    assert main(["inspect", path, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    ranks = {each["name"]: each.get("ranks") for each in report["state"]}
    assert (ranks["3.weight"], ranks[FROZEN]) == ([stage, stage + 2], None)
    # Of the rank that has most.
    assert report["rank_bytes"]["weights"] == report["bytes"]["weights"]
