"""Groups of operations as kernels: their inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.kernels.graph import Graph, Kind
from dmc.analysis.storage.pieces import RESHAPES
from dmc.passes.scheduled.form_kernels.order import Group, ordered


@dataclass(frozen=True)
class Outline:
    """A group as a kernel.

    members: the operations that it computes. body: these, and the views, scalars and constants that it recomputes, in
    order. inputs: its operands, without duplicates. outputs: its results that are read elsewhere.
    """

    members: Group
    body: Group
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]


@dataclass(frozen=True)
class Outlined:
    """The step as units in topological order: kernels, and movements as their indices in the graph."""

    units: tuple[Outline | int, ...]


def outline(graph: Graph, groups: Iterable[Group], replaced: Mapping[ir.Value, ir.Value]) -> Outlined:
    """Cuts the step into kernels, one per group, without dead code, in the order of `ordered`.

    Constants that a movement reads or the step returns get their own kernel. Linear except for a heap.
    """
    units: list[Group] = [*groups, *((number,) for number in _materialised(graph))]
    units += [(number,) for number, kind in enumerate(graph.kinds) if kind is Kind.MOVEMENT]
    found: list[Outline | int] = []
    wanted: set[ir.Value] = set()
    _want(graph, graph.returned, wanted)
    for unit in reversed(ordered(graph, units, replaced)):
        if graph.kinds[unit[0]] is Kind.MOVEMENT:
            found.append(unit[0])
            _want(graph, graph.reads[unit[0]], wanted)
            continue
        results = [result for number in unit for result in graph.ops[number].results]
        outputs = tuple(result for result in results if result in wanted)
        if outputs:
            body, inputs = _body(graph, unit)
            found.append(Outline(unit, body, inputs, outputs))
            _want(graph, inputs, wanted)
    return Outlined(tuple(reversed(found)))


def _materialised(graph: Graph) -> list[int]:
    """The constants that are needed in memory."""
    movements = (value for i, kind in enumerate(graph.kinds) if kind is Kind.MOVEMENT for value in graph.reads[i])
    bases = (graph.base(value) for value in (*graph.returned, *movements))
    numbers = {graph.made_by[base] for base in bases if graph.kind_of(base) is Kind.CONSTANT}
    return sorted(numbers)


def _want(graph: Graph, values: Iterable[ir.Value], wanted: set[ir.Value]) -> None:
    wanted.update(graph.base(value) for value in values)


def _body(graph: Graph, members: Group) -> tuple[Group, tuple[ir.Value, ...]]:
    own = set(members)
    body: set[int] = set()
    inputs: dict[ir.Value, None] = {}
    pending = [*reversed(members)]
    while pending:
        number = pending.pop()
        if number in body:
            continue
        body.add(number)
        inner: list[int] = []
        for value in graph.reads[number]:
            maker = graph.made_by.get(value)
            if maker is not None and _is_made_inside(graph, maker, own):
                inner.append(maker)
            else:
                inputs[value] = None
        pending += reversed(inner)
    return _with_shared_views(graph, body, list(inputs))


def _with_shared_views(graph: Graph, body: set[int], inputs: list[ir.Value]) -> tuple[Group, tuple[ir.Value, ...]]:
    """A value read in several shapes is one input, and its reshapes are part of the body."""
    bases = [_through_reshapes(graph, value) for value in inputs]
    count = Counter(bases)
    for value, base in zip(inputs, bases, strict=True):
        view = value
        while count[base] > 1 and view != base:
            body.add(graph.made_by[view])
            view = graph.ops[graph.made_by[view]].operands[0]
    kept = (base if count[base] > 1 else value for value, base in zip(inputs, bases, strict=True))
    return tuple(sorted(body)), tuple(dict.fromkeys(kept))


def _through_reshapes(graph: Graph, value: ir.Value) -> ir.Value:
    while graph.kind_of(value) is Kind.VIEW and graph.ops[graph.made_by[value]].name in RESHAPES:
        value = graph.ops[graph.made_by[value]].operands[0]
    return value


def _is_made_inside(graph: Graph, maker: int, own: set[int]) -> bool:
    if maker in own or graph.kinds[maker] in (Kind.CONSTANT, Kind.SCALAR, Kind.INLINED):
        return True
    if graph.kinds[maker] is not Kind.VIEW:
        return False
    base = graph.made_by.get(inner_base(graph, graph.ops[maker].results[0]))
    return base is not None and base in own


def inner_base(graph: Graph, value: ir.Value) -> ir.Value:
    """The value that this one aliases, through views only."""
    while graph.kind_of(value) is Kind.VIEW:
        value = graph.ops[graph.made_by[value]].operands[0]
    return value
