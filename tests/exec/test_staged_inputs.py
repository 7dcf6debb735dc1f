"""Inputs that a GPU's runtime copies ahead, as the CPU's plan executes and the simulator tells them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import dmc
from dmc.api import compile_artifact
from dmc.cli.simulate_notes import notes
from dmc.machine import machine
from dmc.runtime import Artifact, Step
from dmc.simulator import simulate


def _artifact(rows: int, target: str) -> Artifact:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))
    example = torch.linspace(-1, 1, rows * 3 * 32 * 32).reshape(rows, 3, 32, 32), torch.ones(rows, 4)
    options: dict[str, Any] = {"loss": nn.functional.mse_loss, "optimizer": dmc.optim.SGD(lr=1e-3), "example": example}
    return compile_artifact(model, target=target, verify=False, **options)


def test_copying_that_takes_longer_than_the_step_is_told() -> None:
    told = {rows: list(notes(artifact, simulate(artifact.job, machine("h200")))) for rows, artifact in _every().items()}
    assert not told[1]
    (note,) = told[2048]
    assert note.startswith("copying 25.20 MB of inputs to the device takes 0.46 ms, longer than the step")


def _every() -> dict[int, Artifact]:
    return {rows: _artifact(rows, "cuda") for rows in (1, 2048)}


def test_a_plan_with_staged_inputs_computes_the_same_on_a_cpu() -> None:
    losses: list[list[float]] = []
    for target in ("cpu", "cpu+cuda"):
        artifact = _artifact(4, target)
        spaces = {slot.range.space for slot in artifact.job.programs[0].slots if slot.role == "batch"}
        assert spaces == {"pinned_host" if target == "cpu" else "staged"}
        step = Step(artifact, "cpu")
        batches = [(torch.full((4, 3, 32, 32), 0.1 * i), torch.full((4, 4), float(i))) for i in range(5)]
        # Two calls are in flight: the inputs of each are its own.
        losses.append([float(loss) for loss in [step(*batch) for batch in batches]])
    assert losses[0] == losses[1]
