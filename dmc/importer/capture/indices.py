"""Which inputs an exported graph reads as indices, of how many: what is checked before a step.

An input is followed through operations that only move its elements. What is computed from it, or may be written in
place, is not: there an index out of range makes NaN, the loss if nothing else (`unchecked`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx

from dmc.importer import origin
from dmc.importer.forward.readings import CONVERSIONS, Reading, distinct, moves, readings, silent
from dmc.importer.torch_internals import written
from dmc.program.signature import IndexBound

aten = torch.ops.aten
# By placeholder, the name and the example of an input of indices.
_Inputs: TypeAlias = Mapping[fx.Node, tuple[str, Tensor]]
# By operation what it reads as indices that nothing checks.
Unchecked: TypeAlias = Mapping[fx.Node, tuple[Reading, ...]]
_PADS = (aten.pad.default, aten.constant_pad_nd.default)
# Numbers that stand for the elements of an input; constants that are moved beside them are smaller.
_FIRST = 1 << 40


def index_bounds(graph: fx.GraphModule, batch: Sequence[tuple[str, Tensor]], accumulate: int) -> tuple[IndexBound, ...]:
    """The bounds of the inputs' indices. `batch`: the last placeholders, of the first of `accumulate` micro-batches."""
    found = _bounds(graph, batch, accumulate)
    return tuple(dict.fromkeys(bound for bounds in found.values() for _, bound in bounds if bound is not None))


def unchecked(graph: fx.GraphModule, batch: Sequence[tuple[str, Tensor]], accumulate: int) -> Unchecked:
    """What is `silent`, and not checked before a step."""
    shapes = {name: tensor.shape for name, tensor in batch}
    bounds = _bounds(graph, batch, accumulate)
    # Of a rank's part of an input only what is read whole is checked.
    checked = {(node, each) for node in bounds for each, bound in bounds[node] if _is_whole(bound, shapes)}
    return {node: tuple(each for each in found if (node, each) not in checked) for node, found in silent(graph).items()}


def _is_whole(bound: IndexBound | None, shapes: Mapping[str, Sequence[int]]) -> bool:
    # With micro-batches the first dimension of the box counts all of them.
    return bound is not None and all(
        first == 0 and end >= size for (first, end), size in zip(bound.box, shapes[bound.input], strict=True)
    )


def _bounds(
    graph: fx.GraphModule, batch: Sequence[tuple[str, Tensor]], accumulate: int
) -> dict[fx.Node, list[tuple[Reading, IndexBound | None]]]:
    """What each operation reads as indices, and what is checked of that."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    given = zip(placeholders[len(placeholders) - len(batch) :], batch, strict=True)
    inputs: _Inputs = {node: each for node, each in given if not each[1].is_floating_point()}
    changed = written(graph.graph)
    found: dict[fx.Node, list[tuple[Reading, IndexBound | None]]] = {}
    for node in graph.graph.nodes:
        if node.op == "call_function":
            each = readings(node.target, node.args, node.kwargs)
            found[node] = [(reading, _bound(node, reading, inputs, changed, accumulate)) for reading in each]
    return found


def _bound(
    node: fx.Node, reading: Reading, inputs: _Inputs, changed: Set[fx.Node], accumulate: int
) -> IndexBound | None:
    if (source := _source(reading.index, inputs, changed)) is None:
        return None
    name, tensor = inputs[source]
    box = _box(_elements_read(reading.index, source, tensor), tensor)
    if box is None:
        return None
    if accumulate > 1:
        if box[0] != (0, tensor.shape[0]):
            return None
        box = ((0, tensor.shape[0] * accumulate), *box[1:])
    what = f"{reading.what} ({origin.of_exported_node(node, 'model')})"
    return IndexBound(name, what, reading.size, reading.ignored, box, reading.least)


def _source(node: Any, inputs: _Inputs, changed: Set[fx.Node]) -> fx.Node | None:
    """The input whose elements `node` holds, moved."""
    while isinstance(node, fx.Node) and node not in changed:
        if node in inputs:
            return node
        node = node.args[0] if moves(node) or node.target in _PADS else None
    return None


def _elements_read(node: fx.Node, source: fx.Node, tensor: Tensor) -> Tensor:
    """The numbers of the elements of `source` that `node` holds, and constants below them."""
    chain: list[fx.Node] = []
    while node is not source:
        chain.append(node)
        node = node.args[0]  # pyright: ignore[reportAssignmentType]
    value = torch.arange(_FIRST, _FIRST + tensor.numel()).view(tensor.shape)
    for each in reversed(chain):
        if each.target not in CONVERSIONS:
            value = each.target(value, *each.args[1:], **each.kwargs)  # pyright: ignore[reportCallIssue]
    return value


def _box(read: Tensor, tensor: Tensor) -> tuple[tuple[int, int], ...] | None:
    """From where to where each dimension of `tensor` is read; None where that is no box."""
    numbers = distinct(read).flatten()
    is_read = torch.zeros(tensor.numel(), dtype=torch.bool)
    is_read[numbers[numbers >= _FIRST] - _FIRST] = True
    if not is_read.any():
        return None
    if not tensor.dim():
        return ()
    places = is_read.view(tensor.shape).nonzero(as_tuple=True)
    box = tuple((int(place.min()), int(place.max()) + 1) for place in places)
    return box if len(places[0]) == prod(end - first for first, end in box) else None
