"""dm-offload: what it may never do, whatever it is given; and what it decides."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dmc
from dmc import dialect as dm
from dmc import plans
from dmc._mlir import ir
from dmc.analysis.requests.keeping import keeping_of, write_keeping
from dmc.analysis.tasks.timeline import timeline
from dmc.dialect.labels import label_of, put_kernel_label
from dmc.machine import machine
from dmc.passes.base import parse_pipeline, run_passes
from dmc.passes.scheduled.keep.rewrite import rewrite as run_again
from dmc.passes.scheduled.keep.step import step_of
from dmc.passes.scheduled.offload.copies import hidden, visits_of
from dmc.passes.scheduled.offload.rewrite import rewrite
from dmc.passes.scheduled.offload.trips import clock_of, trips_of
from dmc.passes.shared.starts import starts_of_returns
from dmc.step_function import find_step
from tests.meanings import said
from tests.scheduled_modules import MACHINE, arena_of, assert_a_cap_is_kept, bytes_of, graph_of, random_module

H200 = machine(MACHINE)


def _labelled(seed: int, operations: int) -> ir.Module:
    """A random step whose second half is its backward pass."""
    module = random_module(seed, operations)
    kernels = [view for view in find_step(module).entry_block.operations if isinstance(view, dm.KernelOp)]
    for number, kernel in enumerate(kernels):
        is_backward = 2 * number >= len(kernels)
        put_kernel_label(kernel.operation, f"h.{number % 3}{', backward' if is_backward else ''}")
    return module


def _copies(module: ir.Module) -> list[str]:
    """The memory spaces from which what is offloaded is moved."""
    return [space for space, _ in _moves(module)]


def _moves(module: ir.Module) -> list[tuple[str, str]]:
    """The copies of what is offloaded: the space that each is from, and its label."""
    starts = [view for view in find_step(module).entry_block.operations if isinstance(view, dm.StartOp)]
    copies = [each for start in starts if isinstance(each := dm.movement_of(start), dm.CopyOp)]
    return [(each.source.value, label) for each in copies if (label := label_of(each.operation).tensor)]


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(8))
def test_any_values_may_leave(seed: int) -> None:
    module = _labelled(seed, 160 + seed)
    graph, expected, meant = graph_of(module), bytes_of(module), said(module)
    clock, trips = clock_of(graph), trips_of(graph)
    assert trips
    chosen = [each for each in trips if Random(f"{seed} {each.maker}").random() < 0.7] or trips
    rewrite(graph, visits_of(clock, chosen, H200))
    for passes in ("", "dm-hoist-start,dm-sink-wait", f"dm-schedule{{machine={MACHINE}}}"):
        run_passes(module, parse_pipeline(passes) if passes else ())
        module.operation.verify()
        dm.verify_symbols(module)
        assert sorted(_copies(module)) == sorted(["device", "pinned_host"] * len(chosen))
        assert bytes_of(module) == expected
        assert said(module).differences(meant) == []


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(12))
def test_kernels_that_run_again_read_what_has_returned(seed: int) -> None:
    """Or what has not left yet: in any order of the two."""
    module, random = _labelled(seed, 60 + seed), Random(seed)
    graph, expected, meant = graph_of(module), bytes_of(module), said(module)
    trips = trips_of(graph)
    rewrite(graph, visits_of(clock_of(graph), trips, H200))
    step = step_of(graph_of(module))
    run_again(step, {each: random.randrange(len(step.graph.order)) for each in step.kernels() if random.random() < 0.5})
    module.operation.verify()
    dm.verify_symbols(module)
    assert bytes_of(module) == expected
    assert said(module).differences(meant) == []
    block = find_step(module).entry_block
    for start in starts_of_returns(block):
        gone = start.operation.operands[0].owner.operation
        left = gone.operands[0].owner.operation.operands[0]
        assert trips and all(use.owner.is_before_in_block(gone) for use in left.uses if use.owner.name == "dm.kernel")


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), percent=st.integers(40, 110))
# Under the cap that these refusals name, dm-offload leaves all in place, and dm-keep must come to the same schedule.
@example(198369, 40)
@example(4, 40)
# And here an order that dm-keep could place is not the one that dm-schedule makes.
@example(159, 40)
def test_a_cap_is_kept_or_refused_with_the_same_bits(seed: int, percent: int) -> None:
    with ir.Context() as context, ir.Location.unknown():
        dm.load(context)
        assert_a_cap_is_kept(_labelled(seed, 40), percent, _fitted)


def _fitted(module: ir.Module, cap: int) -> None:
    options = f"{{machine={MACHINE} memory_cap={cap}}}"
    passes = f"dm-offload{options},dm-keep{options},dm-hoist-start,dm-sink-wait,dm-schedule{options}"
    run_passes(module, parse_pipeline(passes))


# Layers of a network, each with one result that its gradient reads.
LAYERS = 6


def _network(flops: int) -> ir.Module:
    lines, value = list[str](), "%x"
    for layer in range(LAYERS):
        lines.append(_kernel(f"%y{layer}", f"one({value})", f"h.{layer}", flops))
        value = f"%y{layer}"
    for layer in reversed(range(LAYERS)):
        lines.append(_kernel(f"%d{layer}", f"two({value}, %y{layer})", f"h.{layer}, backward", flops))
        value = f"%d{layer}"
    body = "\n".join(lines)
    return ir.Module.parse(
        f"""
func.func private @one(%x: T) -> T attributes {{dm.kind = "other"}} {{
  return %x : T
}}
func.func private @two(%x: T, %y: T) -> T attributes {{dm.kind = "other"}} {{
  return %x : T
}}
func.func @step(%x: T {{dm.name = "x", dm.role = "parameter"}}) -> (T {{dm.name = "x"}}) {{
  {body}
  return {value} : T
}}""".replace("T", "tensor<262144xf32>")
    )


def _kernel(name: str, call: str, label: str, flops: int) -> str:
    body, _, operands = call.rstrip(")").partition("(")
    types = ", ".join("T" for _ in operands.split(","))
    attributes = f'body = @{body}, flops = {flops} : i64, bytes = 64 : i64, dm.label = "{label}"'
    return f'{name} = "dm.kernel"({operands}) {{{attributes}}} : ({types}) -> T'


@pytest.mark.usefixtures("context")
def test_copies_that_hide_make_no_kernel_wait() -> None:
    module = _network(10**10)  # 300 µs; the copies of a value take 22 µs each
    graph = graph_of(module)
    clock, trips = clock_of(graph), trips_of(graph)
    # The last layer's result is read at once; between the readers of the one before there is one kernel, which is
    # enough to leave, but not to return as well.
    assert [trip.maker for trip in trips] == list(range(LAYERS - 1))
    found = hidden(clock, trips, H200)
    assert [trip.maker for trip in found] == list(range(LAYERS - 2))
    rewrite(graph, visits_of(clock, found, H200))
    after = graph_of(module)
    assert timeline(after, after.order).total == pytest.approx(clock[-1], abs=1)
    assert arena_of(module) <= 6 * 2**20 < arena_of(_network(10**10))


@pytest.mark.usefixtures("context")
def test_a_slow_link_hides_the_longest_trips_only() -> None:
    module = _network(5 * 10**8)
    graph = graph_of(module)  # 15 µs: a copy takes longer
    clock, trips = clock_of(graph), trips_of(graph)
    found = hidden(clock, trips, H200)
    assert 0 < len(found) < len(trips)
    assert found[0].maker == 0
    assert all(visit.is_hidden for visit in visits_of(clock, found, H200))
    assert not all(visit.is_hidden for visit in visits_of(clock, trips, H200))


@pytest.mark.usefixtures("context")
def test_under_a_cap_no_more_leaves_than_necessary() -> None:
    whole = arena_of(_network(10**10))
    counts: list[int] = []
    for percent in (100, 85, 65):
        module = _network(10**10)
        kernels, cap = clock_of(graph_of(module))[-1], whole * percent // 100
        _fitted(module, cap)
        assert arena_of(module) <= cap
        counts.append(_copies(module).count("device"))
        graph = graph_of(module)
        assert timeline(graph, graph.order).total == pytest.approx(kernels, abs=1)
    assert counts[0] == 0 < counts[1] < counts[2] < LAYERS


@pytest.mark.usefixtures("context")
def test_what_is_to_be_kept_does_not_leave_under_a_cap() -> None:
    module = _network(10**10)
    write_keeping(module, _words(dmc.plan().keep("h.0").recompute("h.1")))
    run_passes(module, parse_pipeline(f"dm-offload{{machine={MACHINE} memory_cap={arena_of(module) * 85 // 100}}}"))
    labels = {label for _, label in _moves(module)}
    assert labels and labels.isdisjoint({"h.0", "h.1"})


@pytest.mark.usefixtures("context")
def test_a_processor_whose_memory_is_the_hosts_offloads_only_what_is_requested() -> None:
    module = _network(10**10)
    cap = arena_of(module) * 85 // 100
    run_passes(module, parse_pipeline(f"dm-offload{{machine=cpu memory_cap={cap}}}"))
    assert not _copies(module)
    write_keeping(module, [*_words(dmc.plan().offload("h.[0-1]"))])
    run_passes(module, parse_pipeline(f"dm-offload{{machine=cpu memory_cap={cap}}}"))
    assert _copies(module).count("device") == 2


def _words(plan: plans.Recipe) -> tuple[plans.Keeping, ...]:
    return plans.keeping(plan.rules, ["h.0", "h.1"])


@pytest.mark.usefixtures("context")
def test_requests_are_stated_and_read_again() -> None:
    module = _network(1)
    write_keeping(module, _words(dmc.plan().recompute("h.*").offload("h.0").keep("h.1")))
    assert [str(word) for word in keeping_of(module)] == ['recompute("h.*")', 'offload("h.0")', 'keep("h.1")']
