"""A training step through all forms, down to the programs of ranks, run in numpy: they compute what one rank does."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dmc.optim
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.sharding.ends import SHARDING
from dmc.dialect.placements import placement_of
from dmc.dtypes import Array, numpy_type
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.interpreter import run
from dmc.interpreter.bodies import kernels_of
from dmc.interpreter.slots import INPUTS
from dmc.mesh import Mesh
from dmc.passes.base import run_passes
from dmc.passes.scheduled.select_kernels import SelectKernels
from dmc.pipeline import STAGES
from dmc.placement.placement import Placement, replicated
from dmc.step_function import arguments, find_step
from tests.partitioned import place, run_on_one_rank
from tests.placements import gathered, part_of, random_placement

BATCH, WIDTH = 4, 8
# Scalars, which nothing splits.
WHOLE = ("step", "seed", "lr", "guard")
MESHES = (Mesh(a=1), Mesh(a=2), Mesh(a=2, b=2))


@dataclass(frozen=True)
class Imported:
    """text: form imported. arguments and results: by name; the results are those of one rank."""

    text: str
    arguments: dict[str, Array]
    results: dict[str, Array]


def imported(context: Any) -> Imported:
    """A step of a perceptron with momentum, and its results."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))
    batch = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
    optimizer = dmc.optim.SGD(lr=0.1, momentum=0.9, clip_grad_norm=1.0)
    step = import_step(model, _squares, optimizer, batch, Precision.FP32, 1, 0, context)
    given = {spec.name: torch.as_tensor(step.state[spec.name]).numpy().copy() for spec in step.signature.state}
    given |= {"lr": np.array([0.1], np.float32), "guard": np.array(0, np.int32)}
    given |= {spec.name: tensor.numpy() for spec, tensor in zip(step.signature.batch, batch, strict=True)}
    results = run_on_one_rank(step.module, list(given.values()))
    names = [spec.name for spec in (*step.signature.state, *step.signature.outputs) if getattr(spec, "mutated", True)]
    return Imported(str(step.module), given, dict(zip(names, results, strict=True)))


def _squares(y: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return ((y - targets) * (y - targets)).mean()


def planned(module: ir.Module, mesh: Mesh, placements: dict[str, Placement]) -> dict[str, Placement]:
    """Brings a step from form imported to form planned; gives how its arguments lie. The kernels need no backend."""
    place(module, mesh, placements)
    run_passes(module, STAGES[1].passes)
    step = find_step(module)
    lies = {port.name: placement_of(own[SHARDING]) for port, own in zip(arguments(step), step.arg_attrs, strict=True)}
    for stage in STAGES[2:4]:
        run_passes(module, [each for each in stage.passes if not isinstance(each, SelectKernels)])
    return lies


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_all_ranks_compute_what_one_does(context: Any, step: Imported, mesh: Mesh, seed: int) -> None:
    choose = Random(seed)
    placements = {
        name: replicated(array.ndim) if name in WHOLE else random_placement(choose.randrange, mesh, array.shape)
        for name, array in step.arguments.items()
    }
    module = ir.Module.parse(step.text)
    lies = planned(module, mesh, placements)
    job, kernels = job_of(module), kernels_of(module)
    ports: tuple[list[dict[str, Array]], list[dict[str, Array]]] = ([], [])
    for program in job.programs:
        given = {slot.name: slot for slot in program.slots if slot.role != "output"}
        for target, is_input in zip(ports, (False, True), strict=True):
            target.append(
                {
                    name: part_of(step.arguments[name], lies[name], mesh, program.rank).astype(numpy_type(slot.dtype))
                    for name, slot in given.items()
                    if (slot.role in INPUTS) == is_input
                }
            )
    runs = [run(job, kernels, *ports, seed) for seed in range(4)]
    assert len({_bits(each) for each in runs}) == 1
    outputs, state = runs[0]
    for name, wanted in step.results.items():
        parts = [{**one, **other}[name] for one, other in zip(outputs, state, strict=True)]
        whole = gathered(lies[name], mesh, wanted.shape, parts) if name in lies else parts[0]
        np.testing.assert_allclose(whole, wanted, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.fixture
def step(context: Any) -> Imported:
    """The step, imported anew in the context of the test."""
    return imported(context)


def _bits(left: tuple[list[dict[str, Array]], list[dict[str, Array]]]) -> bytes:
    return b"".join(array.tobytes() for ports in left for rank in ports for _, array in sorted(rank.items()))
