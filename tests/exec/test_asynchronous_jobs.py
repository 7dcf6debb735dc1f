"""Whatever the passes make asynchronous, bucket and move becomes a job that is proved: no deadlock, race or overlap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmc
from dmc import plans
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.mesh import Mesh
from dmc.passes.base import Element, run_passes
from dmc.passes.planned.lower_to_plan import LowerToPlan
from dmc.passes.planned.place_events import PlaceEvents
from dmc.passes.planned.plan_memory import PlanMemory
from dmc.passes.scheduled.assign_queues import AssignQueues
from dmc.passes.scheduled.async_ import Async
from dmc.passes.scheduled.bucket import Bucket
from dmc.passes.scheduled.copy_ports import CopyPorts
from dmc.passes.scheduled.form_kernels import FormKernels
from dmc.passes.scheduled.hoist_start import HoistStart
from dmc.passes.scheduled.schedule import Schedule
from dmc.passes.scheduled.sink_wait import SinkWait
from dmc.passes.scheduled.tensors.flatten_collectives import FlattenCollectives
from dmc.program import Job
from dmc.proof import verify
from dmc.step_function import NAME, ROLE, find_step
from tests.examples import IN_ONE_CONTEXT
from tests.kernels import form_kernels
from tests.large import large
from tests.placed_gpt2 import placed_gpt2
from tests.random_collectives import program

MESHES = (Mesh(a=2), Mesh(a=2, b=2), Mesh(a=3, b=2))
MOVES: list[Element] = [AssignQueues(), HoistStart(), SinkWait()]


def _job(module: ir.Module, passes: list[Element]) -> Job:
    run_passes(module, [*passes, PlanMemory(), LowerToPlan(), PlaceEvents()])
    return job_of(module)


def _name_ports(module: ir.Module) -> None:
    """Arguments come from the host, results go there."""
    step = find_step(module)
    batch = ir.StringAttr.get("batch")
    given = [ir.DictAttr.get({NAME: ir.StringAttr.get(f"a{i}"), ROLE: batch}) for i in range(len(step.type.inputs))]
    step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(given)
    results = [ir.DictAttr.get({NAME: ir.StringAttr.get(f"r{i}")}) for i in range(len(step.type.results))]
    step.operation.attributes["res_attrs"] = ir.ArrayAttr.get(results)


@settings(IN_ONE_CONTEXT, max_examples=40, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_collectives(context: Any, random: Any) -> None:
    """Groups along one axis, along both, and along both in the other order share ranks, and must take turns."""
    mesh = MESHES[random.randrange(len(MESHES))]
    text = program(mesh, random.randrange(10**6), 7 * (1 + random.randrange(3)))
    bucket = Bucket(bytes=(256, 4096, 2**20)[random.randrange(3)])
    # A pass that reorders starts of one channel wants tokens anew.
    order: list[Element] = [Schedule(machine="cpu"), AssignQueues()] if random.randrange(2) else []
    module = ir.Module.parse(text)
    _name_ports(module)
    prepare = [FlattenCollectives(), "canonicalize", "cse", FormKernels(), CopyPorts(), Async()]
    job = _job(module, [*prepare, bucket, *MOVES, *order])
    verify(job)


SGD, ADAMW = dmc.optim.SGD(lr=0.1), dmc.optim.AdamW(lr=0.1, clip_grad_norm=1.0)


@pytest.mark.parametrize(
    ("optimizer", "zero"),
    [(SGD, 0), (ADAMW, 3), *(pytest.param(*each, marks=large) for each in ((SGD, 3), (ADAMW, 0)))],
)
def test_a_small_gpt2(context: Any, optimizer: Any, zero: int) -> None:
    plan = dmc.plan(Mesh(dp=2, tp=2)).data_parallel("dp", zero=zero).use(plans.megatron_gpt2("tp"))
    module, _ = placed_gpt2(plan, context, optimizer)
    form_kernels(module)
    job = _job(module, [CopyPorts(), Async(), Bucket(), *MOVES, Schedule(machine="cpu"), AssignQueues()])
    verify(job)
