"""Phases: several losses and optimizers in turn over one state, each a program of its own, like eager's loop."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import StepLR

import dmc
from dmc.cli.main import main
from dmc.errors import InputError, NonFiniteLossError
from tests.large import large, large_unless
from tests.phased import CASES, assert_state, assert_trains_like_eager
from tests.phased_models import Small, of_critic, of_generator, wasserstein

MESH = dmc.Mesh(dp=2)
PLANS = {
    "dp": dmc.plan(MESH).data_parallel("dp"),
    "ZeRO-2": dmc.plan(MESH).data_parallel("dp", zero=2),
    "ZeRO-3": dmc.plan(MESH).data_parallel("dp", zero=3),
    "host": dmc.plan().offload_optimizer(),
}


@pytest.mark.parametrize("name", CASES)
def test_phases_train_like_eager(name: str) -> None:
    step = assert_trains_like_eager(CASES[name], verify=True)
    assert [*step.phases] == [*CASES[name].losses]


@pytest.mark.parametrize("name", large_unless(("SAC",), CASES))
@pytest.mark.parametrize("plan", large_unless(("ZeRO-2",), PLANS))
def test_phases_under_plans(name: str, plan: str) -> None:
    step = assert_trains_like_eager(CASES[name], plan=PLANS[plan])
    assert not step.differing_replicas()


def test_files_and_checkpoints(tmp_path: Path) -> None:
    """A file and a checkpoint go on where they stopped, each phase with its count and its optimizer's state."""

    def between(number: int, step: Any) -> Any:
        if number == 2:
            step.save(tmp_path / "step.dmc")
            step.close()
            return dmc.load(tmp_path / "step.dmc")
        if number == 3:
            checkpoints = dmc.Checkpoints(step, tmp_path / "checkpoints")
            checkpoints.save()
            checkpoints.wait()
            other = dmc.load(tmp_path / "step.dmc")
            assert dmc.Checkpoints(other, tmp_path / "checkpoints").resume() == step.steps_done == 9
            return other
        return step

    case = CASES["WGAN-GP"]
    step = assert_trains_like_eager(case, between)
    assert {name: phase.steps_done for name, phase in step.phases.items()} == {"critic": 10, "generator": 5}
    state = step.state_dict()
    assert state["step"] == {"critic": 10, "generator": 5}
    assert dmc.load(tmp_path / "step.dmc", state_only=True).state_dict()["step"] == {"critic": 4, "generator": 2}
    step.save_weights(tmp_path / "weights")
    other = dmc.load(tmp_path / "step.dmc")
    other.load_weights(tmp_path / "weights")
    other.load_state_dict({**other.state_dict(), "step": state["step"], "optimizer": state["optimizer"]})
    again = other.state_dict()
    assert all(again[part][name].equal(state[part][name]) for part in ("model", "optimizer") for name in state[part])
    model = case.model()
    other.update(model)
    assert_state(again["model"], model)
    for phase, optimizer in case.optimizers(model).items():
        optimizer.load_state_dict(other.torch_optimizer_state(optimizer, model))
        steps = {int(each["step"]) for each in optimizer.state.values()}
        assert steps == {state["step"][phase]}


def test_commands_show_a_phase_and_train_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case, file = CASES["WGAN-GP"], str(tmp_path / "step.dmc")
    model = case.model()
    dmc.compile_artifact(model, phases=case.phases(model)).write(file)
    assert main(["inspect", file, "--program", "generator"]) == 0
    shown = capsys.readouterr().out
    assert "programs critic, generator\n" in shown
    assert "step.phases['generator'](noise) -> loss" in shown
    assert main(["run", file, "--steps", "1", "--batches", "none.npz"]) == 1
    assert "has several phases, critic, generator, and only Python code knows" in capsys.readouterr().err


@large
def test_phases_are_planned_and_proven_for_gpus() -> None:
    case = CASES["SAC"]
    model = case.model()
    artifact = dmc.compile_artifact(model, phases=case.phases(model), target="cuda")
    assert artifact.names == ["critics", "actor", "temperature", "targets"]
    for name in artifact.names:
        program = artifact.program(name, "the step")
        assert program.code is not None
        assert "V11" in program.certificate.properties


class Noisy(nn.Module):
    """Each phase draws."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)


def _drawn(name: str) -> Any:
    def loss(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        drawn = torch.rand(64)
        return model.get_submodule(name)(x).square().mean(), drawn

    return loss


def test_each_phase_draws_counts_and_has_rates_of_its_own() -> None:
    torch.manual_seed(0)
    model, x = Noisy(), torch.randn(2, 4)
    optimizers = {name: torch.optim.SGD(model.get_submodule(name).parameters(), lr=0.1) for name in ("one", "other")}
    phases = {name: dmc.Phase(_drawn(name), (x,), optimizer) for name, optimizer in optimizers.items()}
    step = dmc.compile(model, phases=phases, verify=True)
    one, other = step.phases.values()
    first, second = (phase(x)[1].numpy() for phase in (one, other))
    assert (first != second).mean() > 0.9
    again = one(x)[1].numpy()
    assert (first != again).mean() > 0.9
    # A rate of zero leaves its phase alone, and the other goes on.
    optimizers["one"].param_groups[0]["lr"] = 0.0
    before = step.state_dict()["model"]
    one(x)
    other(x)
    after = step.state_dict()["model"]
    assert after["one.weight"].equal(before["one.weight"])
    assert not after["other.weight"].equal(before["other.weight"])
    scheduler = other.scheduler(StepLR, step_size=1, gamma=0.0)
    other(x, lr=scheduler)
    scheduler.step()
    before = step.state_dict()["model"]
    other(x, lr=scheduler)
    assert step.state_dict()["model"]["other.weight"].equal(before["other.weight"])
    with pytest.raises(NonFiniteLossError, match="step 4"):
        one(torch.full((2, 4), torch.nan), check_finite=True)


def test_patterns_shapes_and_evaluation() -> None:
    """Optimizers of dmc take parameters by pattern; a phase may have several shapes; an evaluation is a function."""
    torch.manual_seed(0)
    model = Small()
    own = copy.deepcopy(model)
    batches = {rows: (torch.randn(rows, 4), torch.randn(rows, 3)) for rows in (8, 4)}
    noise = torch.randn(8, 3)
    step = dmc.compile(
        model,
        phases={
            "critic": dmc.Phase(of_critic, [*batches.values()], dmc.optim.SGD(lr=0.1), "critic.*"),
            "generator": dmc.Phase(of_generator, {"noise": noise}, dmc.optim.SGD(lr=0.1), "generator.*", accumulate=2),
        },
        evaluation=lambda model, noise: (wasserstein(model, noise), model.generator(noise)),
        evaluation_example=(noise,),
        verify=True,
    )
    assert step.snapshot().names == ["critic", "critic-1", "generator", "evaluation"]
    optimizers = {name: torch.optim.SGD(own.get_submodule(name).parameters(), lr=0.1) for name in step.phases}
    for rows in (8, 4, 4):
        for name, loss, batch in (("critic", of_critic, batches[rows]), ("generator", of_generator, (noise,))):
            own.zero_grad()
            loss(own, *batch).backward()
            optimizers[name].step()
        step.phases["critic"](*batches[rows])
        step.phases["generator"](noise=noise)
    assert_state(step.state_dict()["model"], own)
    loss, made = step.evaluate(noise)
    assert float(loss) == pytest.approx(wasserstein(own, noise).item(), rel=1e-5)
    actions = torch.from_numpy(made.numpy().copy())
    torch.testing.assert_close(actions, own.generator(noise).detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match=r"has several phases, critic, generator\n  hint: .*step.phases\['critic'\]"):
        step(noise)
    with pytest.raises(InputError, match="phase 'actor': is none of this step\n  hint: it has critic, generator"):
        step.phases["actor"]
