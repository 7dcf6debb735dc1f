"""The passes that make movements asynchronous change when things happen, never what: the same bits come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmc
from dmc import dialect, plans
from dmc._mlir import ir
from dmc.interpreter import spmd
from dmc.mesh import Mesh
from dmc.passes.base import Element, parse_pipeline, run_passes
from dmc.passes.scheduled.assign_queues import AssignQueues
from dmc.passes.scheduled.async_ import Async
from dmc.passes.scheduled.bucket import Bucket
from dmc.passes.scheduled.copy_ports import CopyPorts
from dmc.passes.scheduled.hoist_start import HoistStart
from dmc.passes.scheduled.sink_wait import SinkWait
from dmc.passes.shared.starts import starts_in
from dmc.step_function import find_step
from tests.examples import IN_ONE_CONTEXT
from tests.kernels import form_kernels
from tests.large import large_unless
from tests.partitioned import place
from tests.placed_gpt2 import PLACE, parts, placed_gpt2
from tests.placements import random_placement
from tests.random_collectives import program, random_arguments
from tests.random_steps import random_step

MESHES = (Mesh(a=2), Mesh(a=2, b=2), Mesh(a=3, b=2), Mesh(a=2, b=2, c=2))
BYTES = (256, 4096, 2**20)


def _passes(choose: Callable[[int], int]) -> list[Element]:
    """The passes in their order, some left out or repeated."""
    bucket = Bucket(bytes=BYTES[choose(len(BYTES))], preserve_overlap=bool(choose(2)), machine="cpu")
    moves = [HoistStart(), SinkWait()]
    first = [moves[choose(2)]] if choose(4) == 0 else []
    last = moves if choose(2) else [*reversed(moves), AssignQueues()]
    return [CopyPorts(), Async(), *first, bucket, AssignQueues(), *last]


def _assert_same(module: ir.Module, arguments: Any, passes: list[Element]) -> None:
    """Every rank returns the same bits before and after the passes, and no rule is broken behind any of them."""
    expected = spmd.run(module, "step", arguments)
    before = str(module)
    for element in passes:
        run_passes(module, [element])
        dialect.verify_symbols(module)
    results = spmd.run(module, "step", arguments)
    for own, wanted in zip(results.results, expected.results, strict=True):
        for result, each in zip(own, wanted, strict=True):
            assert result.tobytes() == each.tobytes(), f"{before}\n{module}"


@settings(IN_ONE_CONTEXT, max_examples=100, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_collectives(context: Any, random: Any) -> None:
    mesh = MESHES[random.randrange(3)]
    seed, count = random.randrange(10**6), 7 * (1 + random.randrange(4))
    module = ir.Module.parse(program(mesh, seed, count))
    _assert_same(module, random_arguments(mesh, seed), _passes(random.randrange))


@settings(IN_ONE_CONTEXT, max_examples=100, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_steps(context: Any, random: Any) -> None:
    choose = random.randrange
    mesh = MESHES[choose(len(MESHES))]
    text, shapes = random_step(choose, 1 + choose(3), 1 + choose(12))
    placements = {f"a{i}": random_placement(choose, mesh, shape) for i, shape in enumerate(shapes)}
    rng = np.random.default_rng(0)
    whole = [rng.integers(-8, 9, shape) / 8 for shape in shapes]
    module = ir.Module.parse(_with_roles(text))
    place(module, mesh, placements)
    run_passes(module, parse_pipeline(PLACE))
    form_kernels(module)
    _assert_same(module, parts(module, mesh, whole), _passes(choose))


def _with_roles(text: str) -> str:
    """Every other argument comes from the host; all results are outputs."""
    arguments, arrow, rest = text.partition("-> (")
    for i, role in enumerate(("parameter", "batch", "frozen", "control")):
        arguments = arguments.replace(f'"a{i}"}}', f'"a{i}", dm.role = "{role}"}}')
    return arguments + arrow + rest.replace('dm.name = "a', 'dm.name = "new a')


PLANS = {
    "dp2": dmc.plan(Mesh(dp=2)).data_parallel("dp"),
    "zero2": dmc.plan(Mesh(dp=2)).data_parallel("dp", zero=2),
    "zero3": dmc.plan(Mesh(dp=2)).data_parallel("dp", zero=3),
    "tp2": dmc.plan(Mesh(tp=2)).use(plans.megatron_gpt2("tp")),
    "zero2_tp2": dmc.plan(Mesh(dp=2, tp=2)).data_parallel("dp", zero=2).use(plans.megatron_gpt2("tp")),
}
# Movements between ranks before and after buckets: the parameters' of one kind become few.
STARTS = {"dp2": (20, 4), "zero2": (35, 4), "zero3": (35, 4), "tp2": (10, 9), "zero2_tp2": (44, 12)}


# ZeRO-2 and tensor parallelism are also tested together.
@pytest.mark.parametrize("name", large_unless(("dp2", "zero3", "zero2_tp2"), PLANS))
def test_a_small_gpt2(context: Any, name: str) -> None:
    plan = PLANS[name]
    module, arguments = placed_gpt2(plan, context)
    form_kernels(module)
    _assert_same(module, arguments, [CopyPorts(), Async()])
    before = _count(module)
    _assert_same(module, arguments, [Bucket(bytes=2**20), AssignQueues(), HoistStart(), SinkWait()])
    assert (before, _count(module)) == STARTS[name]


def _count(module: ir.Module) -> int:
    """The movements between ranks."""
    return sum(each.queue.value == "comm" for each in starts_in(find_step(module).entry_block))
