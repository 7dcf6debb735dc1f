"""Fusion by an integer program finds the best of all possible partitions, and only possible ones."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bench.fusion_optimum.in_place import fused_optimally
from bench.fusion_optimum.partition import partition
from bench.fusion_optimum.solve import fuse_optimally
from dmc._mlir import ir
from dmc.analysis.kernels.fusion.greedy import MOST_VALUES, Merging, fuse
from dmc.analysis.kernels.graph import Graph, Kind, step_graph
from dmc.errors import DmcError
from dmc.passes.base import run_passes
from dmc.passes.scheduled.form_kernels import FormKernels
from dmc.step_function import find_step
from tests.partitioned import run_on_one_rank
from tests.random_text import RandomText, Shape, generic, kind

LAUNCH = 100.0
MOST = 5
# Many modules in one context do no harm.
FEW = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _is_ordered(kernels: Sequence[int], after: Mapping[int, int]) -> bool:
    """Whether kernels, sets of nodes as bits, can be run one after another."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for one, other in itertools.permutations(kernels, 2):
        if any(after[node] & other for node in after if one >> node & 1):
            sorter.add(other, one)
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True


def _partitions(nodes: int, allowed: Sequence[int]) -> Iterator[list[int]]:
    """All partitions of a set into allowed ones."""
    if not nodes:
        yield []
    for each in allowed:
        if each & nodes & -nodes and not each & ~nodes:
            yield from ([each, *rest] for rest in _partitions(nodes & ~each, allowed))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_program(random: Any) -> None:
    count = random.randrange(2, 7)
    after = {a: sum(1 << b for b in range(a + 1, count) if random.random() < 0.4) for a in range(count)}
    reached = [0] * count
    for node in reversed(range(count)):
        reached[node] = after[node]
        for each in range(count):
            reached[node] |= reached[each] if after[node] >> each & 1 else 0
    sets = [each for each in range(1, 1 << count) if each.bit_count() == 1 or random.random() < 0.5]
    sets = [each for each in sets if _is_ordered([each, *(1 << i for i in range(count) if not each >> i & 1)], after)]
    costs = {each: float(random.randrange(100)) for each in sets}
    start = [1 << i for i in range(count)]
    found = partition(costs, reached, start)
    assert _is_ordered(found.chosen, after)
    possible = [each for each in _partitions((1 << count) - 1, sets) if _is_ordered(each, after)]
    assert list(found.chosen) in [sorted(each) for each in possible]
    best = min(sum(map(costs.__getitem__, each)) for each in possible)
    assert found.cost == sum(map(costs.__getitem__, found.chosen)) == best
    assert found.bound == pytest.approx(best)


class _Everything:
    """All kernels that a step may be made of, found by merging."""

    def __init__(self, graph: Graph, own: bool) -> None:
        self.graph, self.own = graph, own
        first = self._apart()
        self.nodes = sorted(first.groups)
        self.after = {node: sum(1 << each for each in first.clusters.after[node]) for node in range(len(first.nodes))}
        self.number = {first.nodes[node]: node for node in self.nodes}
        # How each kernel is merged: of which two.
        self.ways: dict[int, tuple[int, int] | None] = {1 << node: None for node in self.nodes}
        self.cost = {each: self._cost(first, each) for each in self.ways}
        for size in range(2, len(self.nodes) + 1):
            for some in itertools.combinations(self.nodes, size):
                self._add(sum(1 << node for node in some))

    def _apart(self) -> Merging:
        return Merging(self.graph, MOST_VALUES, self.own)

    def _add(self, whole: int) -> None:
        for one in [each for each in self.ways if not each & ~whole]:
            other = whole & ~one
            if one < other and other in self.ways and self._merged(one, other):
                return

    def _merged(self, one: int, other: int) -> bool:
        merging = self._apart()
        self._make(merging, one)
        self._make(merging, other)
        first, second = self._in_order(merging, one, other)
        if not merging.saved(first, second) or merging.why_not(first, second):
            return False
        if merging.merge(first, second) is None:
            return False
        self.ways[one | other] = one, other
        self.cost[one | other] = self._cost(merging, one | other)
        return True

    def _make(self, merging: Merging, kernel: int) -> None:
        if (way := self.ways[kernel]) is not None:
            for each in way:
                self._make(merging, each)
            assert merging.merge(*self._in_order(merging, *way)) is not None

    def _in_order(self, merging: Merging, one: int, other: int) -> tuple[int, int]:
        """What reads the other comes second; else what begins later."""
        first, second = (merging.clusters.find((each & -each).bit_length() - 1) for each in (one, other))
        is_behind = first in merging.clusters.after[second]
        is_later = second not in merging.clusters.after[first] and other & -other < one & -one
        return (second, first) if is_behind or is_later else (first, second)

    def _cost(self, merging: Merging, kernel: int) -> float:
        group = merging.groups[merging.clusters.find((kernel & -kernel).bit_length() - 1)]
        return LAUNCH + sum(merging.values.bytes[value] for some in (group.reads, group.writes) for value in some)

    def best(self) -> float:
        """The least cost of a partition whose kernels can be run one after another."""
        others = [1 << node for node in self.after if node not in self.nodes]
        every = _partitions(sum(1 << node for node in self.nodes), list(self.ways))
        return min(sum(map(self.cost.__getitem__, each)) for each in every if _is_ordered([*each, *others], self.after))

    def kernels(self, groups: Sequence[Sequence[int]]) -> list[int]:
        """Groups of operations as sets of nodes."""
        return [sum(1 << self.number[each] for each in group) for group in groups]


MATRIX: Shape = (16, 8)
CUBE: Shape = (3, 16, 8)
SUM, PRODUCT = ["%y = arith.addf %i0, %o : f64"], ["%y = arith.mulf %i0, %i1 : f64"]


def _reduced(step: RandomText, shape: Shape, left: Sequence[int]) -> None:
    name, small = _read(step, shape), tuple(shape[i] for i in left)
    kinds = [i in left for i in range(len(shape))]
    generic(step, [(name, shape, range(len(shape)))], (step.splat(small, "0.0"), small, left), kinds, SUM)


def _combined(step: RandomText, shape: Shape, other: Shape, places: Sequence[int]) -> None:
    every = range(len(shape))
    pair = (_read(step, shape), shape, every), (_read(step, other), other, places)
    generic(step, pair, (step.empty(shape), shape, every), [True] * len(shape), PRODUCT)


def _multiplied(step: RandomText) -> None:
    name, out = _read(step, MATRIX), step.splat(MATRIX, "0.0")
    other = step.splat((8, 8), "0.5")
    types = f"{kind(MATRIX)}, tensor<8x8xf64>) outs({out} : {kind(MATRIX)}) -> {kind(MATRIX)}"
    step.emit(f"linalg.matmul ins({name}, {other} : {types}", MATRIX)


def _read(step: RandomText, shape: Shape) -> str:
    """A value of this shape, of those that were made last."""
    fit = [name for name, own in step.values if own == shape]
    return fit[-1 - step.choose(min(3, len(fit)))] if fit else step.splat(shape, "0.5")


MAKERS: tuple[Callable[[RandomText], None], ...] = (
    lambda step: _combined(step, MATRIX, MATRIX, (0, 1)),
    lambda step: _combined(step, MATRIX, MATRIX, (0, 1)),
    lambda step: _combined(step, MATRIX, (16,), (0,)),
    lambda step: _combined(step, CUBE, MATRIX, (1, 2)),
    lambda step: _reduced(step, MATRIX, (0,)),
    lambda step: _reduced(step, MATRIX, (1,)),
    lambda step: _reduced(step, CUBE, (0, 1)),
    _multiplied,
)


def _random_step(random: Any, operations: int) -> str:
    """Computations that can be fused in many ways; those that nothing reads are results."""
    step = RandomText(random.randrange)
    step.values = [("%a0", MATRIX), ("%a1", CUBE)]
    for _ in range(operations):
        MAKERS[random.randrange(len(MAKERS))](step)
    read = set(re.findall(r"%\w+", " ".join(line.partition("=")[2] for line in step.lines)))
    results = [each for each in step.values[2:] if each[0] not in read]
    types = ", ".join(f'{kind(shape)} {{dm.name = "r{i}"}}' for i, (_, shape) in enumerate(results))
    given = ", ".join(f'{name}: {kind(shape)} {{dm.name = "{name[1:]}"}}' for name, shape in step.values[:2])
    names = ", ".join(name for name, _ in results)
    end = f"return {names} : {', '.join(kind(shape) for _, shape in results)}"
    return "\n".join([f"func.func @step({given}) -> ({types}) {{", *step.lines, end, "}"])


@settings(FEW, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_against_every_partition(context: Any, random: Any) -> None:
    own = random.random() < 0.5
    module = ir.Module.parse(_random_step(random, random.randrange(3, MOST + 1)))
    graph = step_graph(find_step(module), own)
    assume(1 < graph.kinds.count(Kind.COMPUTE) <= MOST)
    everything = _Everything(graph, own)
    fusion, solved = fuse_optimally(graph, LAUNCH, MOST_VALUES, 0, own)
    kernels = everything.kernels(fusion.groups)
    assert all(each in everything.ways for each in kernels)
    cost = sum(map(everything.cost.__getitem__, kernels))
    assert cost == everything.best()
    assert cost <= sum(map(everything.cost.__getitem__, everything.kernels(fuse(graph, own=own).groups)))
    assert solved.complete == solved.pieces
    assert solved.kept == 0
    assert solved.gap == pytest.approx(0.0)


@settings(FEW, max_examples=25)
@given(st.randoms(use_true_random=False))
def test_the_meaning_stays(context: Any, random: Any) -> None:
    text = _random_step(random, 12)
    target = ("cpu", "cuda")[random.randrange(2)]
    module = ir.Module.parse(f'module attributes {{dm.target = "{target}", dm.machine = "h200"}} {{\n{text}\n}}')
    drawn = np.random.default_rng(0)
    arguments = [drawn.standard_normal(shape) for shape in (MATRIX, CUBE)]
    wanted = run_on_one_rank(module, arguments)
    with fused_optimally("h200") as solved:
        run_passes(module, [FormKernels()])
    assert len(solved) == 1
    for made, before in zip(run_on_one_rank(module, arguments), wanted, strict=True):
        np.testing.assert_allclose(made, before, rtol=1e-12)


LAYER = """
  %r{i} = linalg.generic {{indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x{i} : tensor<32x16xf32>) outs(%zeros : tensor<32xf32>) {{
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  }} -> tensor<32xf32>
  %b{i} = linalg.generic {{indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%x{i}, %r{i} : tensor<32x16xf32>, tensor<32xf32>) outs(%empty : tensor<32x16xf32>) {{
    ^bb0(%in: f32, %sum: f32, %out: f32):
      %s = arith.mulf %in, %sum : f32
      linalg.yield %s : f32
  }} -> tensor<32x16xf32>
  %c{i} = linalg.generic {{indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}}
      ins(%b{i} : tensor<32x16xf32>) outs(%wide : tensor<16xf32>) {{
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  }} -> tensor<16xf32>
  %x{next} = linalg.matmul ins(%b{i}, %w : tensor<32x16xf32>, tensor<16x16xf32>) outs(%begin : tensor<32x16xf32>)
      -> tensor<32x16xf32>"""
LAYERS = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func @step(%x0: tensor<32x16xf32> {{dm.name = "x"}}, %w: tensor<16x16xf32> {{dm.name = "w"}})
    -> (tensor<32x16xf32> {{dm.name = "y"}}{types}) {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x16xf32>
  %rows = tensor.empty() : tensor<32xf32>
  %columns = tensor.empty() : tensor<16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<32xf32>) -> tensor<32xf32>
  %wide = linalg.fill ins(%zero : f32) outs(%columns : tensor<16xf32>) -> tensor<16xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x16xf32>) -> tensor<32x16xf32>{layers}
  return %x{count}{names} : tensor<32x16xf32>{kinds}
}}"""


def test_layers_that_are_alike_are_solved_once(context: Any) -> None:
    count = 5
    text = LAYERS.format(
        layers="".join(LAYER.format(i=i, next=i + 1) for i in range(count)),
        types="".join(f', tensor<16xf32> {{dm.name = "c{i}"}}' for i in range(count)),
        names="".join(f", %c{i}" for i in range(count)),
        kinds=", tensor<16xf32>" * count,
        count=count,
    )
    module = ir.Module.parse(text)
    fusion, solved = fuse_optimally(step_graph(find_step(module)), LAUNCH)
    assert solved.pieces == count
    # The first reads what the step is given, which is no different from what a product makes.
    assert solved.distinct == 1
    sizes = [len(group) for group in fusion.groups]
    assert sizes == [2, 1, 1] * count


def test_without_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(DmcError, match=r"highspy is not installed.*\n?.*\[compile\]"):
        partition({1: 1.0}, [0], [1])
