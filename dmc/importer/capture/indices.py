"""Which inputs an exported graph reads as indices, of how many: embeddings' rows, and the classes of losses.

An input is followed through operations that only move its elements. What is computed from it, or may be written in
place, is not: there an index out of range makes NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx

from dmc.importer import origin
from dmc.importer.torch_internals import argument_names, written
from dmc.runtime.signature import IndexBound

aten = torch.ops.aten
# By placeholder, the name and the example of an input of indices.
_Inputs: TypeAlias = Mapping[fx.Node, tuple[str, Tensor]]
# The indices, their bound, the number that is no index but ignored, and what reads them.
_Reading: TypeAlias = tuple[Any, int, int | None, str]
_MOVES = {
    *(aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int, aten.contiguous.default),
    *(aten.transpose.int, aten.permute.default, aten.t.default, aten.movedim.int, aten.expand.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.unsqueeze.default, aten.slice.Tensor, aten.select.int),
    *(aten.clone.default, aten.detach.default, aten.alias.default, aten.narrow.default, aten.pad.default),
    *(aten.constant_pad_nd.default, aten.to.dtype, aten._to_copy.default),
}
_CONVERSIONS = (aten.to.dtype, aten._to_copy.default)
# Conversions to these change no index that is in range. To a boolean, every other number becomes one.
_WIDE = (torch.int32, torch.int64)
# Numbers that stand for the elements of an input; constants that are moved beside them are smaller.
_FIRST = 1 << 40


def index_bounds(graph: fx.GraphModule, batch: Sequence[tuple[str, Tensor]], accumulate: int) -> tuple[IndexBound, ...]:
    """The bounds of the inputs' indices. `batch`: the last placeholders, of the first of `accumulate` micro-batches."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    given = zip(placeholders[len(placeholders) - len(batch) :], batch, strict=True)
    inputs: _Inputs = {node: each for node, each in given if not each[1].is_floating_point()}
    changed = written(graph.graph)
    found: list[IndexBound] = []
    for node in graph.graph.nodes:
        reader = _READERS.get(node.target)
        if reader is None:
            continue
        arguments = {**dict(zip(argument_names(node.target), node.args, strict=False)), **node.kwargs}
        bound = _bound(node, reader(arguments), inputs, changed, accumulate)
        if bound is not None and bound not in found:
            found.append(bound)
    return tuple(found)


def _bound(
    node: fx.Node, reading: _Reading, inputs: _Inputs, changed: Set[fx.Node], accumulate: int
) -> IndexBound | None:
    index, size, ignored, what = reading
    if (source := _source(index, inputs, changed)) is None:
        return None
    name, tensor = inputs[source]
    box = _box(_elements_read(index, source, tensor), tensor)
    if box is None:
        return None
    if accumulate > 1:
        if box[0] != (0, tensor.shape[0]):
            return None
        box = ((0, tensor.shape[0] * accumulate), *box[1:])
    return IndexBound(name, f"{what} ({origin.of_exported_node(node, 'model')})", size, ignored, box)


def _embedding(given: Mapping[str, Any]) -> _Reading:
    return given["indices"], given["weight"].meta["val"].shape[0], None, "the embedding"


def _loss(given: Mapping[str, Any]) -> _Reading:
    # Targets that are probabilities are no integers, and so come from no input of indices.
    scores = given["self"].meta["val"]
    classes = scores.shape[min(1, scores.dim() - 1)]
    return given["target"], classes, given.get("ignore_index", -100), "the classes of the loss"


_READERS: Mapping[Any, Callable[[Mapping[str, Any]], _Reading]] = {
    aten.embedding.default: _embedding,
    aten.cross_entropy_loss.default: _loss,
    aten.nll_loss_nd.default: _loss,
}


def _source(node: Any, inputs: _Inputs, changed: Set[fx.Node]) -> fx.Node | None:
    """The input whose elements `node` holds, moved."""
    while isinstance(node, fx.Node) and node not in changed:
        if node in inputs:
            return node
        node = node.args[0] if _moves(node) else None
    return None


def _moves(node: fx.Node) -> bool:
    """Whether the elements of a node are those of its first operand."""
    return node.target in _MOVES and (node.target not in _CONVERSIONS or node.meta["val"].dtype in _WIDE)


def _elements_read(node: fx.Node, source: fx.Node, tensor: Tensor) -> Tensor:
    """The numbers of the elements of `source` that `node` holds, and constants below them."""
    chain: list[fx.Node] = []
    while node is not source:
        chain.append(node)
        node = node.args[0]  # pyright: ignore[reportAssignmentType]
    value = torch.arange(_FIRST, _FIRST + tensor.numel()).view(tensor.shape)
    for each in reversed(chain):
        if each.target not in _CONVERSIONS:
            value = each.target(value, *each.args[1:], **each.kwargs)  # pyright: ignore[reportCallIssue]
    return value


def _box(read: Tensor, tensor: Tensor) -> tuple[tuple[int, int], ...] | None:
    """From where to where each dimension of `tensor` is read; None where that is no box."""
    numbers = read[read >= _FIRST].unique() - _FIRST
    if not numbers.numel():
        return None
    places = torch.unravel_index(numbers, tensor.shape)
    box = tuple((int(place.min()), int(place.max()) + 1) for place in places)
    return box if numbers.numel() == prod(end - first for first, end in box) else None
