"""dm-schedule: what it may never do, whatever it is given."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.tasks.footprint import footprint, intervals
from dmc.analysis.tasks.graph import Task, TaskGraph, check_order
from dmc.analysis.tasks.timeline import busy, timeline
from dmc.errors import DmcError, MemoryCapError
from dmc.passes.scheduled.schedule import Schedule
from dmc.passes.scheduled.schedule.list_scheduling import kernel_orders
from dmc.passes.scheduled.schedule.movements import place_movements
from dmc.passes.scheduled.schedule.picks import frees_first, picks_within
from dmc.passes.scheduled.schedule.prefetch import prefetch_layers
from dmc.passes.scheduled.schedule.room import Room
from tests.examples import IN_ONE_CONTEXT
from tests.scheduled_modules import MACHINE, arena_of, graph_of, random_module, results_of


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(60))
def test_a_schedule_means_the_same_and_is_never_worse(seed: int) -> None:
    module = random_module(seed, 10 + seed)
    before, expected = graph_of(module), results_of(module)
    peak = footprint(before, before.order).peak
    Schedule(machine=MACHINE).run(module)
    module.operation.verify()
    dm.verify_symbols(module)
    after = graph_of(module)
    check_order(after, after.order)
    assert timeline(after, after.order).total <= timeline(before, before.order).total
    assert footprint(after, after.order).peak <= peak
    for own, wanted in zip(results_of(module), expected, strict=True):
        for result, reference in zip(own, wanted, strict=True):
            np.testing.assert_array_equal(result, reference)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", [20, 44, 54, 64, 115, 148])
def test_memory_under_a_cap_buys_time(seed: int) -> None:
    """In each of these modules an order that is faster by less than 0.1 % takes more memory than the one given."""
    module = random_module(seed, 10 + seed % 60)
    Schedule(machine=MACHINE).run(module)
    before = graph_of(module)
    Schedule(machine=MACHINE, memory_cap=1 << 40).run(module)
    after = graph_of(module)
    assert timeline(before, before.order).total <= 1.001 * timeline(after, after.order).total
    assert footprint(after, after.order).peak <= footprint(before, before.order).peak


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", [27, 88, 118])
def test_movements_overlap_under_the_smallest_cap(seed: int) -> None:
    """Fragmentation leaves only the smallest order; overlap away from its peak takes no memory there."""
    frugal = random_module(seed, 40)
    Schedule(machine=MACHINE, algorithm="frugal").run(frugal)
    with pytest.raises(MemoryCapError) as refusal:
        Schedule(machine=MACHINE, memory_cap=1).run(random_module(seed, 40))
    module = random_module(seed, 40)
    Schedule(machine=MACHINE, memory_cap=refusal.value.needed).run(module)
    before, after = graph_of(frugal), graph_of(module)
    assert timeline(after, after.order).total < 0.95 * timeline(before, before.order).total
    assert arena_of(module) <= refusal.value.needed


@settings(IN_ONE_CONTEXT, max_examples=40)
@given(seed=st.integers(0, 10**6), percent=st.integers(60, 200))
def test_a_cap_is_kept_or_refused(context: Any, seed: int, percent: int) -> None:
    module = random_module(seed, 30)
    Schedule(machine=MACHINE, algorithm="asis").run(module)
    cap = arena_of(module) * percent // 100
    try:
        Schedule(machine=MACHINE, memory_cap=cap).run(module)
    except DmcError as error:
        assert percent < 100, "the order given fits"
        smallest = int(error.hint.split("memory_cap=")[1].split(",")[0])
        assert smallest > cap
        Schedule(machine=MACHINE, memory_cap=smallest).run(module)
        cap = smallest
    assert arena_of(module) <= cap


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(10))
def test_a_timeline_adds_up(seed: int) -> None:
    graph = graph_of(random_module(seed, 40))
    played = timeline(graph, graph.order)
    assert played.total == pytest.approx(busy(graph) + played.exposed)
    for lane in {task.lane for task in graph.tasks}:
        assert played.total >= busy(graph, lane)
    for index, task in enumerate(graph.tasks):
        assert all(played.end[each] <= played.begin[index] for each in (*task.needs, *task.after))


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(10))
def test_what_is_alive_at_the_peak_is_the_peak(seed: int) -> None:
    graph = graph_of(random_module(seed, 40))
    found = footprint(graph, graph.order)
    alive = [
        storage for storage, (first, last) in intervals(graph, graph.order).items() if first <= found.place <= last
    ]
    event = graph.order[found.place]
    scratch = graph.tasks[event].scratch if event >= 0 else 0
    assert found.peak == max(found.live) == graph.resident + sum(graph.sizes[each] for each in alive) + scratch


@pytest.mark.usefixtures("context")
def test_more_room_is_never_slower() -> None:
    totals: list[float] = []
    for percent in (100, 120, 200):
        module = random_module(7, 60)
        graph = graph_of(module)
        Schedule(machine=MACHINE, memory_cap=footprint(graph, graph.order).peak * percent // 100).run(module)
        after = graph_of(module)
        totals.append(timeline(after, after.order).total)
    assert totals == sorted(totals, reverse=True)


@given(data=st.data(), used=st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_room_is_what_a_list_would_say(data: st.DataObject, used: list[int]) -> None:
    room, count = Room(used), len(used)
    for _ in range(data.draw(st.integers(0, 8))):
        first, end = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
        more = data.draw(st.integers(0, 9))
        room.add(first, end, more)
        used = [each + more * (first <= place < end) for place, each in enumerate(used)]
        first, end = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
        limit = data.draw(st.integers(0, 30))
        above = [place for place in range(first, end) if used[place] > limit]
        assert room.highest(first, end) == max(used[first:end], default=0)
        assert room.first_above(first, end, limit) == (above[0] if above else None)
        assert room.last_above(first, end, limit) == (above[-1] if above else None)


def test_a_value_ends_with_its_last_reader_also_where_that_runs_early() -> None:
    """In the given order %large lives beside the second kernel, which may wait; what then runs has room without it."""
    large, late, small, result = range(4)
    reads, writes = ((), (), (large,), (small,)), ((large,), (late,), (small,), (result,))
    needs = ((), (), (0,), (2,))
    nothing: Any = None
    tasks = [Task(nothing, None, "compute", 1.0, 0, "", needs[i], (), reads[i], writes[i], scratch=0) for i in range(4)]
    graph = TaskGraph(nothing, tuple(tasks), tuple(range(4)), sizes=(100, 1, 1, 50), kept=(), resident=0)
    pick = picks_within(graph, graph.kernels(), graph.followers(), cap=110)
    ready = [[(0.0, 0), (9.0, 1)], [(1.0, 2), (9.0, 1)], [(2.0, 3), (9.0, 1)], [(9.0, 1)]]
    assert [pick(queue) for queue in ready] == [0, 2, 3, 1]


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(20))
def test_every_candidate_is_in_order_and_keeps_to_the_cap(seed: int) -> None:
    graph = graph_of(random_module(seed, 60))
    followers = graph.followers()
    for base in (graph.kernels(), frees_first(graph, followers)):
        at_once = place_movements(graph, base, followers, None, overlap=False)
        cap = footprint(graph, at_once).peak
        check_order(graph, at_once)
        check_order(graph, prefetch_layers(graph, base, followers))
        for kernels in (base, *kernel_orders(graph, base, followers, 2 * cap)):
            order = place_movements(graph, kernels, followers, 2 * cap, overlap=True)
            check_order(graph, order)
            assert footprint(graph, order).peak <= 2 * cap


# Composites whose code may work in place, or not.
IN_PLACE = """
func.func private @make() -> T {
  %c = arith.constant dense<0.0> : T
  return %c : T
}
func.func private @one(%x: T) -> T attributes {dm.in_place = [array<i64: 0, 0>]} {
  %y = "dm.composite"(%x) {kind = "slope", decomposition = @same, parameters = {}} : (T) -> T
  return %y : T
}
func.func private @same(%x: T) -> T attributes {dm.in_place = []} {
  %y = "dm.composite"(%x) {kind = "slope", decomposition = @same, parameters = {}} : (T) -> T
  return %y : T
}
func.func private @two(%x: T, %y: T) -> (T, T)
    attributes {dm.in_place = [array<i64: 0, 0>, array<i64: 0, 1>, array<i64: 1, 0>]} {
  %p, %q = "dm.composite"(%x, %y) {kind = "slopes", decomposition = @same, parameters = {}} : (T, T) -> (T, T)
  return %p, %q : T, T
}
func.func @step(%w: T {dm.name = "w", dm.role = "input"}) -> (T {dm.name = "one"}, T {dm.name = "other"}) {
  %a = "dm.kernel"() {body = @make, COST} : () -> T
  %b = "dm.kernel"() {body = @make, COST} : () -> T
  BODY
}"""
ONE = '%{} = "dm.kernel"(%{}) {{body = @one, COST}} : (T) -> T'
TWO = '%p, %q = "dm.kernel"(%a, %b) {body = @two, COST} : (T, T) -> (T, T)'


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    ("kernels", "returned", "storages"),
    [
        ((ONE.format("y", "a"),), "%b, %y", 2),
        ((ONE.format("y", "a").replace("@one", "@same"),), "%b, %y", 3),
        # Others read the operand, or it is an argument's.
        ((ONE.format("y", "a"),), "%a, %y", 3),
        ((ONE.format("y", "a"), ONE.format("z", "a")), "%y, %z", 4),
        ((ONE.format("y", "w"),), "%b, %y", 3),
        # Only the second kernel reads what the first made in place; or others do, too.
        ((ONE.format("y", "a"), ONE.format("z", "y")), "%b, %z", 2),
        ((ONE.format("y", "a"), ONE.format("z", "y")), "%y, %z", 3),
        # The first result takes the first operand and no other, the second none, even where the first is not read.
        ((TWO,), "%p, %q", 3),
        ((TWO,), "%w, %q", 3),
    ],
)
def test_a_composite_that_works_in_place_takes_no_second_memory(
    kernels: tuple[str, ...], returned: str, storages: int
) -> None:
    body = "\n  ".join((*kernels, f"return {returned} : T, T"))
    text = IN_PLACE.replace("BODY", body).replace("COST", "bytes = 512 : i64, flops = 64 : i64")
    graph = graph_of(ir.Module.parse(re.sub(r"\bT\b", "tensor<64xf32>", text)))
    written = {storage for task in graph.tasks for storage in task.writes}
    assert sum(graph.sizes[storage] for storage in written) == 256 * storages


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(("space", "times"), [("pinned_host", 0), ("staged", 2)])
def test_inputs_on_the_device_count_for_each_call_in_flight(space: str, times: int) -> None:
    argument = f'%x: tensor<64xf32> {{dm.name = "x", dm.role = "batch", dm.space = #dm.space<"{space}">}}'
    module = ir.Module.parse(f"""
      func.func @step(%w: tensor<64xf32> {{dm.name = "w", dm.role = "parameter"}}, {argument})
          -> (tensor<64xf32> {{dm.name = "w"}}) {{
        return %w : tensor<64xf32>
      }}""")
    assert graph_of(module).resident == (1 + times) * 256
