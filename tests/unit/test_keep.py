"""dm-keep: what it may never do, whatever it is given."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmc
from dmc import dialect as dm
from dmc import plans
from dmc._mlir import ir
from dmc.analysis.requests.keeping import keeping_of, root_of, write_keeping
from dmc.analysis.tasks.footprint import footprint
from dmc.dialect.labels import kernel_label_of
from dmc.errors import PlanError
from dmc.passes.base import parse_pipeline, run_passes
from dmc.passes.scheduled.keep.choice import choose, ranked
from dmc.passes.scheduled.keep.replay import Replay, replay
from dmc.passes.scheduled.keep.rewrite import rewrite
from dmc.passes.scheduled.keep.step import Again, Step, step_of
from dmc.passes.scheduled.keep.words import Wanted
from dmc.program.labels import RECOMPUTED
from dmc.step_function import find_step
from tests.meanings import said
from tests.scheduled_modules import MACHINE, assert_a_cap_is_kept, bytes_of, graph_of, random_module

NOTHING = Wanted({}, frozenset())


def _recomputed(module: ir.Module) -> list[ir.Operation]:
    ops = [view.operation for view in find_step(module).entry_block.operations]
    return [op for op in ops if kernel_label_of(op).endswith(RECOMPUTED)]


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(16))
def test_any_kernels_may_run_again(seed: int) -> None:
    module = random_module(seed, 20 + seed)
    step, expected, meant = step_of(graph_of(module)), bytes_of(module), said(module)
    random = Random(seed).randrange
    again = {each: random(len(step.graph.order)) for each in step.kernels() if random(2)}
    predicted = replay(step, again).peak
    rewrite(step, again)
    module.operation.verify()
    dm.verify_symbols(module)
    assert bytes_of(module) == expected
    assert said(module).differences(meant) == []
    after = graph_of(module)
    # State that is read again may not be replaced in place; a value with fewer readers may be reduced in place.
    assert predicted == pytest.approx(footprint(after, after.order).peak, abs=2 * 4 * 2048)
    assert len(_recomputed(module)) <= len(again)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), percent=st.integers(40, 110))
def test_a_cap_is_kept_or_refused_with_the_same_bits(seed: int, percent: int) -> None:
    with ir.Context() as context, ir.Location.unknown():
        dm.load(context)
        assert_a_cap_is_kept(random_module(seed, 40), percent, _fitted)


def _fitted(module: ir.Module, cap: int) -> None:
    options = f"{{machine={MACHINE} memory_cap={cap}}}"
    run_passes(module, parse_pipeline(f"dm-keep{options},dm-hoist-start,dm-sink-wait,dm-schedule{options}"))


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(8))
def test_offers_come_in_the_order_of_what_they_free_for_their_time(seed: int) -> None:
    """All of them, though what else a kernel needs is looked for last."""
    module, random = random_module(seed, 60), Random(seed)
    step = step_of(graph_of(module))
    places = {each: random.randrange(len(step.graph.order)) for each in random.sample(step.kernels(), 4)}
    pinned = frozenset(random.sample(step.kernels(), 4)) - places.keys()
    now = replay(step, places)
    found = list(ranked(step, places, pinned, now))
    ratios = [each.bytes / max(each.ns, 1.0) for each in found]
    assert ratios == sorted(ratios, reverse=True)
    others = [index for index in step.kernels() if index not in places and index not in pinned]
    offers = [_offer(step, places, pinned, now, index) for index in others]
    assert {each.kernels for each in found} == {kernels for kernels, freed in offers if freed > 0}
    # Of some seeds no kernel needs another.
    assert seed not in (3, 4, 5) or any(len(kernels) > 1 for kernels, _ in offers)


def _offer(step: Step, again: Again, pinned: frozenset[int], now: Replay, index: int) -> tuple[frozenset[int], int]:
    """A kernel with all that it needs, and the bytes that they free at the peak; 0 of one that frees none."""
    graph, found, held, pending = step.graph, {index}, set[int](), [*step.graph.tasks[index].reads]
    while pending:
        storage = pending.pop()
        maker = step.makers.get(storage)
        if not (now.is_live(storage) or maker in again or maker in found):
            if maker is None or maker in pinned:
                held.add(storage)
            else:
                found.add(maker)
                pending += graph.tasks[maker].reads
    freed = sum(graph.sizes[each] for each in graph.tasks[index].writes if now.is_live(each))
    return frozenset(found), freed and freed - sum(graph.sizes[each] for each in held)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(8))
def test_no_choice_is_in_vain(seed: int) -> None:
    module = random_module(seed, 60)
    step = step_of(graph_of(module))
    lowest = choose(step, NOTHING, 0).peak
    cap = (lowest + replay(step, {}).peak) // 2
    found = choose(step, NOTHING, cap)
    assert found.peak == replay(step, found.again).peak
    if found.peak <= cap:
        for each in found.again:
            assert replay(step, {kernel: found.again[kernel] for kernel in found.again if kernel != each}).peak > cap
    pinned = frozenset(list(found.again)[:1])
    assert choose(step, Wanted({}, pinned), cap).again.keys().isdisjoint(pinned)


# Three values of a size, one of which takes less time than the others; the last kernels read them.
CHOICE = """
func.func private @one(%x: T) -> T attributes {dm.kind = "other"} {
  return %x : T
}
func.func private @two(%x: T, %y: T) -> T attributes {dm.kind = "other"} {
  return %x : T
}
func.func @step(%x: T {dm.name = "x", dm.role = "parameter"}) -> (T {dm.name = "x"}) {
  %a = "dm.kernel"(%x) {body = @one, flops = 1000000000000 : i64, bytes = 64 : i64} : (T) -> T
  %b = "dm.kernel"(%x) {body = @one, flops = 8 : i64, bytes = 64 : i64} : (T) -> T
  %c = "dm.kernel"(%x) {body = @one, flops = 1000000000000 : i64, bytes = 64 : i64} : (T) -> T
  %p = "dm.kernel"(%x) {body = @one, flops = 8 : i64, bytes = 64 : i64} : (T) -> T
  %q = "dm.kernel"(%p) {body = @one, flops = 8 : i64, bytes = 64 : i64} : (T) -> T
  %r = "dm.kernel"(%q, %a) {body = @two, flops = 8 : i64, bytes = 64 : i64} : (T, T) -> T
  %s = "dm.kernel"(%r, %b) {body = @two, flops = 8 : i64, bytes = 64 : i64} : (T, T) -> T
  %t = "dm.kernel"(%s, %c) {body = @two, flops = 8 : i64, bytes = 64 : i64} : (T, T) -> T
  return %t : T
}""".replace("T", "tensor<1024xf32>")


@pytest.mark.usefixtures("context")
def test_what_takes_the_least_time_runs_again() -> None:
    module = ir.Module.parse(CHOICE)
    step = step_of(graph_of(module))
    found = choose(step, NOTHING, replay(step, {}).peak - 1)
    assert list(found.again) == [1]


# Two layers of a dropout by draw 0 or 1, and a statistic of what comes in; the backward pass reads all four.
LAYERS = """
func.func private @draw_0(%s: T) -> T {
  %c = arith.constant dense<2.0> : T
  %m = arith.mulf %s, %c : T
  return %m : T
}
func.func private @draw_1(%s: T) -> T {
  %c = arith.constant dense<3.0> : T
  %m = arith.mulf %s, %c : T
  return %m : T
}
func.func private @statistic(%x: T) -> T {
  %y = arith.addf %x, %x : T
  return %y : T
}
func.func private @layer(%x: T, %m: T, %s: T) -> T {
  %y = arith.mulf %x, %m : T
  %z = arith.addf %y, %s : T
  return %z : T
}
func.func @step(%w: T {dm.name = "w", dm.role = "parameter"}, %seed: T {dm.name = "seed", dm.role = "seed"})
    -> (T {dm.name = "w"}, T {dm.name = "loss"}) {
  %m0 = "dm.kernel"(%seed) {body = @draw_0, COST} : (T) -> T
  %s0 = "dm.kernel"(%w) {body = @statistic, COST} : (T) -> T
  %h = "dm.kernel"(%w, %m0, %s0) {body = @layer, COST} : (T, T, T) -> T
  %m1 = "dm.kernel"(%seed) {body = @draw_1, COST} : (T) -> T
  %s1 = "dm.kernel"(%h) {body = @statistic, COST} : (T) -> T
  %loss = "dm.kernel"(%h, %m1, %s1) {body = @layer, COST} : (T, T, T) -> T
  %d1 = "dm.kernel"(%w, %m1, %s1) {body = @layer, COST} : (T, T, T) -> T
  %d0 = "dm.kernel"(%d1, %m0, %s0) {body = @layer, COST} : (T, T, T) -> T
  return %d0, %loss : T, T
}""".replace("COST", "flops = 8 : i64, bytes = 64 : i64").replace("T", "tensor<8xf32>")


@pytest.mark.usefixtures("context")
def test_recomputing_something_else_is_seen() -> None:
    """V9 sees another draw, and a statistic of another value."""
    module = ir.Module.parse(LAYERS)
    meant, step = said(module), step_of(graph_of(module))
    # All runs again behind the forward pass.
    rewrite(step, dict.fromkeys(step.kernels(), 5))
    again = {op.attributes["body"].value: op for op in _recomputed(module)}
    assert again.keys() == {"draw_0", "draw_1", "statistic", "layer"}
    assert said(module).differences(meant) == []
    draw, statistic = again["draw_0"], again["statistic"]
    draw.attributes["body"] = ir.FlatSymbolRefAttr.get("draw_1")
    assert said(module).differences(meant) == ["w"]
    draw.attributes["body"] = ir.FlatSymbolRefAttr.get("draw_0")
    own = statistic.operands[0]
    statistic.operands[0] = find_step(module).arguments[1]
    assert said(module).differences(meant) == ["w"]
    statistic.operands[0] = own
    assert said(module).differences(meant) == []


def test_requests_are_read_back(context: Any) -> None:
    words = dmc.plan().recompute("h.*|ln_f").keep("h.*.attn").rules
    modules = ("transformer.h.3", "transformer.h.3.attn", "transformer.ln_f")
    with ir.Location.unknown(context):
        module = ir.Module.create()
        write_keeping(module, plans.keeping(words, modules))
        stated = keeping_of(ir.Module.parse(str(module)))
    assert stated == words
    assert root_of(stated[0], "transformer.h.3.attn.c_attn") == "transformer.h.3"
    assert root_of(stated[0], "transformer.ln_f") == "transformer.ln_f"
    assert root_of(stated[0], "transformer.wte") is None


def test_requests_for_nothing_and_without_a_mesh_are_refused() -> None:
    with pytest.raises(PlanError, match=r"""recompute\("g.\*"\): 'g.\*' matches no module\n  hint: the closest are"""):
        plans.keeping(dmc.plan().recompute("g.*").rules, ("h.0", "h.1"))
    rules = dmc.plan().keep("h.*").shard("w", dim=0, axis="tp").rules
    with pytest.raises(PlanError, match=r"""shard\("w", dim=0, axis="tp"\): requires a mesh"""):
        plans.check_for_one_rank(rules)
