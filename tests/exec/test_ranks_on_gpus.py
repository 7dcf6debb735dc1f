"""A step of several ranks for GPUs is compiled without one; the same plan is rehearsed on a CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import dmc
from dmc.api import compile_artifact
from dmc.errors import ArtifactError
from dmc.program import Launch
from dmc.runtime import Artifact, Step
from dmc.runtime.world.launch import World
from tests.models import demo_gpt

DP2 = dmc.Mesh(dp=2)
STEPS = 3


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    """The demo's GPT under ZeRO-2, whose small tensors lie apart in their buckets."""
    case = demo_gpt.build(0.0, layers=1)
    return compile_artifact(
        case.model,
        loss=case.loss,
        optimizer=dmc.optim.SGD(lr=0.1, clip_grad_norm=1.0),
        example=case.example(0),
        mesh=DP2,
        plan=dmc.plan(DP2).use(dmc.plans.zero2("dp")),
        target="cpu+cuda",
        machine="h200x2",
        verify=False,
    )


def test_one_program_for_each_rank_and_one_code_for_all(artifact: Artifact, tmp_path: Path) -> None:
    artifact.write(tmp_path / "gpt.dmc")
    read = Artifact.read(tmp_path / "gpt.dmc")
    assert [program.rank for program in read.job.programs] == [0, 1]
    launched = {c.kernel for program in read.job.programs for c in program.commands if isinstance(c, Launch)}
    assert read.code is not None
    assert launched == set(read.code.kernels)


def test_the_cpu_rehearses_what_gpus_run(artifact: Artifact) -> None:
    case = demo_gpt.build(0.0, layers=1)
    alone = dmc.compile(
        case.model,
        loss=case.loss,
        optimizer=dmc.optim.SGD(lr=0.1, clip_grad_norm=1.0),
        example=case.example(0),
        verify=False,
    )
    both = Step(artifact, "cpu")
    for seed in range(STEPS):
        assert float(both(*case.example(seed))) == pytest.approx(float(alone(*case.example(seed))), rel=1e-5)
    assert both.differing_replicas() == ()


def test_a_process_of_its_own_for_each_rank(artifact: Artifact) -> None:
    with pytest.raises(ArtifactError, match="is for 2 ranks, each a process with a GPU of its own") as caught:
        Step(artifact, "cuda")
    assert "torchrun --nproc-per-node 2" in caught.value.hint
    # On the CPU all ranks are in each process, whoever started it.
    step = Step(replace(artifact, target="cpu"), "cpu", World(1, 2, 1, 2, "torchrun"))
    assert step.is_first
