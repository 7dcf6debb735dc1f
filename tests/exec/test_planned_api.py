"""Plans as users meet them: caps, certificates, one plan for two machines and three executors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

import dmc
from dmc.api import compile_artifact
from dmc.errors import ArtifactError, DmcError, ProofError
from dmc.kernels.generated import Declined
from dmc.lowering.cuda import native
from dmc.machine import cost_table_hash, machine, write_machine
from dmc.observer import RecordingObserver
from dmc.program import Launch
from dmc.proof import verify
from dmc.runtime import Artifact, Step

EXAMPLE = (torch.linspace(-1, 1, 32).reshape(4, 8), torch.linspace(0, 1, 16).reshape(4, 4))


def _options(**changes: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0)
    return {"model": model, "loss": nn.functional.mse_loss, "optimizer": optimizer, "example": EXAMPLE, **changes}


def _losses(step: Any) -> list[float]:
    return [float(step(*EXAMPLE)) for _ in range(3)]


@pytest.fixture(scope="module")
def plain() -> Artifact:
    """The step for this processor."""
    return compile_artifact(**_options())


def test_launches_say_of_what_they_are(plain: Artifact) -> None:
    labels = {command.label for command in plain.job.programs[0].commands if isinstance(command, Launch)}
    assert {"0", "2", "0, backward", "optimizer, update"} <= labels
    assert {f"{path}.{name}, update" for path in "02" for name in ("weight", "bias")} <= labels


def test_another_schedule_of_the_same_step_gives_the_same_bits(plain: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    write_machine(machine("h200"), path)
    step = dmc.compile(**_options(machine=str(path)))
    assert step.snapshot().certificate.cost_table == cost_table_hash(machine("h200"))
    assert _losses(Step(plain)) == _losses(step)


def test_a_cap_that_is_too_small_is_refused_with_one_that_works(plain: Artifact) -> None:
    room = plain.job.programs[0].arenas["device"]
    within = compile_artifact(**_options(memory_cap=room))
    assert within.certificate.caps == {"device": room}
    with pytest.raises(DmcError, match="the step: needs") as refusal:
        compile_artifact(**_options(memory_cap=room // 2))
    assert "512  parameter      0.weight" in str(refusal.value)
    smallest = int(refusal.value.hint.split("memory_cap=")[1].split(",")[0])
    assert compile_artifact(**_options(memory_cap=smallest)).certificate.caps == {"device": smallest}


def test_a_cap_of_a_gpu_covers_the_inputs_of_two_calls() -> None:
    artifact = compile_artifact(**_options(target="cuda"))
    arenas = artifact.job.programs[0].arenas
    given = [slot.range for slot in artifact.job.programs[0].slots if slot.role in ("batch", "control")]
    assert {each.space for each in given} == {"staged"} and arenas["staged"] >= max(each.end for each in given)
    room = arenas["device"] + 2 * arenas["staged"]
    within = compile_artifact(**_options(target="cuda", memory_cap=room))
    within.certificate.check(within.job, within.modules, within.code)
    with pytest.raises(DmcError, match="the step: needs") as refusal:
        compile_artifact(**_options(target="cuda", memory_cap=room // 2))
    smallest = int(refusal.value.hint.split("memory_cap=")[1].split(",")[0])
    tight = compile_artifact(**_options(target="cuda", memory_cap=smallest)).job.programs[0].arenas
    assert tight["device"] + 2 * tight["staged"] <= smallest
    with pytest.raises(ProofError, match=rf"has {room} bytes; {room - 1} are allowed") as caught:
        verify(within.job, {"device": room - 1})
    assert caught.value.property == "V8"
    narrower = msgspec.structs.replace(within.certificate, caps={"device": room - 1})
    with pytest.raises(ArtifactError, match=f"allows {room - 1:,} bytes of device memory, but the job needs {room:,}"):
        narrower.check(within.job, within.modules, within.code)


def test_a_file_whose_plan_was_changed_is_refused(plain: Artifact, tmp_path: Path) -> None:
    plain.write(tmp_path / "step.dmc")
    artifact = Artifact.read(tmp_path / "step.dmc")
    forged = artifact.job.mapped(lambda each: msgspec.structs.replace(each, commands=each.commands[:-1]))
    msgspec.structs.force_setattr(artifact.job, "classes", forged.classes)
    artifact.write(tmp_path / "step.dmc")
    with pytest.raises(ArtifactError, match="belongs to job"):
        Artifact.read(tmp_path / "step.dmc")


def test_one_plan_for_two_machines_and_executors(plain: Artifact, tmp_path: Path) -> None:
    # The runtime of IREE runs IREE's code alone.
    replayed = compile_artifact(**_options(target="cpu+cuda:iree"))
    by_iree = compile_artifact(**_options(target="cpu+cuda", executor="iree"))
    assert replayed.job.digest() == by_iree.job.digest()
    assert replayed.code is not None
    assert set(replayed.code.kernels) == set(replayed.job.kernels)
    assert set(replayed.modules) == {"cpu"}
    assert (set(by_iree.modules), by_iree.code) == ({"cpu", "cuda"}, None)
    losses = _losses(Step(plain))
    for name, artifact in (("replayed", replayed), ("by_iree", by_iree)):
        artifact.write(tmp_path / f"{name}.dmc")
        assert _losses(dmc.load(tmp_path / f"{name}.dmc")) == losses
        with pytest.raises(DmcError, match="device 'cuda'"):
            dmc.load(tmp_path / f"{name}.dmc", device="cuda")


def test_a_gpu_alone_is_planned_and_proven(tmp_path: Path) -> None:
    # Each micro-batch draws its own numbers, by a counter that no host computes.
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4))
    artifact = compile_artifact(**_options(model=model, accumulate=2, target="cuda", memory_cap=1 << 30))
    assert artifact.code is not None
    assert (set(artifact.modules), set(artifact.code.kernels)) == (set(), set(artifact.job.kernels))
    assert artifact.certificate.caps == {"device": 1 << 30}
    artifact.write(tmp_path / "step.dmc")
    assert Artifact.read(tmp_path / "step.dmc").code == artifact.code


def test_kernels_that_are_left_to_iree_on_a_gpu_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def declined(_: Any) -> Any:
        raise Declined("for the test")

    for count in (0, 1):
        observer = RecordingObserver()
        artifact = compile_artifact(**_options(model=nn.Linear(8, 4), target="cuda", observer=observer))
        left = [name for name, kernel in artifact.job.kernels.items() if kernel.implementation == "iree"]
        found = [note for note in observer.notes if "left to IREE, whose code is slow on a GPU" in note]
        assert (len(found), bool(left)) == (count, bool(count))
        assert all(min(left) in note for note in found)
        monkeypatch.setattr(native, "ways_of", declined)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"executor": "nonesuch"}, "executor 'nonesuch': does not exist"),
        ({"target": "cpu+cpu"}, "names one kind of machine twice"),
        ({"machine": "nonesuch"}, "nonesuch"),
        ({"memory_cap": "1GB"}, "memory_cap: is '1GB'; it must be a positive integer number of bytes"),
        ({"evaluation": None}, "evaluation: is None; it must be True, False or a function"),
        ({"memory_cap": 1e9}, "memory_cap: is 1000000000.0"),
        ({"memory_cap": 0}, "memory_cap: is 0"),
        ({"memory_cap": True}, "memory_cap: is True"),
    ],
)
def test_what_is_not_there_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DmcError, match=message):
        compile_artifact(**_options(**changes))


def test_a_step_that_was_planned_for_a_cpu_is_not_run_on_a_gpu(plain: Artifact, tmp_path: Path) -> None:
    plain.write(tmp_path / "step.dmc")
    with pytest.raises(ArtifactError, match="was planned for cpu"):
        dmc.load(tmp_path / "step.dmc", device="cuda")
