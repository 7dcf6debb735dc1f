"""A layer as one operation while a step is traced, and its graphs in the operation's place."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx

from dmc.importer import origin
from dmc.importer.composites.base import LIBRARY, NAMESPACE
from dmc.importer.forward.random_numbers.randomness import MAX_SITES, Randomness
from dmc.importer.layers.layer import RANDOM, Layer, Tracer, results_of, traced
from dmc.importer.layers.segments import Segment

LIBRARY.define("layer_forward(int call, Tensor[] given) -> Tensor[]")
LIBRARY.define("layer_backward(int call, Tensor[] given) -> Tensor[]")
_FORWARD, _BACKWARD = torch.ops.dmc.layer_forward.default, torch.ops.dmc.layer_backward.default


@dataclass(eq=False)
class Kind:
    """Equal segments, of which the first is traced: once for inputs of each type."""

    first: Segment
    mixed: bool
    trace: Tracer
    layers: dict[Hashable, Layer | None] = field(default_factory=dict[Hashable, "Layer | None"])

    def layer(self, given: Sequence[Tensor]) -> Layer | None:
        """The layer for inputs like these; None for one that cannot be traced alone."""
        key = tuple((tuple(each.shape), each.stride(), each.dtype, each.requires_grad) for each in given)
        if key not in self.layers:
            self.layers[key] = traced(self.first, given, self.mixed, self.trace)
        return self.layers[key]


@dataclass(eq=False)
class Call:
    """One call of a layer, whose operations are those of `segment`. drawn: how many random numbers the step draws
    before it. layer: what was traced, once the call has run. is_partial: whether some outputs have no gradient.
    """

    kind: Kind
    segment: Segment
    drawn: int = 0
    layer: Layer = field(init=False)
    is_partial: bool = False
    number: int = field(default_factory=itertools.count().__next__)

    def __call__(self, values: Mapping[fx.Node, Any], random: Randomness) -> dict[fx.Node, Any] | None:
        """The values of the layer's nodes, those that others read, given those of nodes before it; autograd sees one
        operation. None where the layer must be traced as a part of the step."""
        given = [values[node] for node in self.segment.inputs]
        if random.is_mapped or not all(isinstance(each, Tensor) for each in given):
            return None
        layer = self.kind.layer(given)
        if layer is None or random.sites + layer.draws > MAX_SITES:
            return None
        self.layer, self.drawn = layer, random.sites
        random.sites += layer.draws
        draws = random.draws if layer.draws else random.counter
        outputs = _Called.apply(self.number, *given, random.seed, random.counter, draws)
        return dict.fromkeys(self.segment.nodes) | dict(zip(self.segment.outputs, outputs, strict=True))

    def places(self) -> dict[origin.Origin, origin.Origin]:
        """The origin of an operation here, by that in the layer that was traced."""
        pairs = zip(self.kind.first.nodes, self.segment.nodes, strict=True)
        return {_place(of_first): _place(own) for of_first, own in pairs}


# The calls of the steps that are traced, by number.
_CALLS: dict[int, Call] = {}


@contextmanager
def calling(calls: Sequence[Call]) -> Generator[None]:
    """While a step with these calls is traced."""
    _CALLS.update({call.number: call for call in calls})
    try:
        yield
    finally:
        for call in calls:
            del _CALLS[call.number]


class _Called(torch.autograd.Function):
    """A layer for autograd. What its backward pass reads of the forward pass is known when both are expanded."""

    @staticmethod
    def forward(ctx: Any, number: int, *given: Tensor) -> tuple[Tensor, ...]:
        layer = _CALLS[number].layer
        outputs = _FORWARD(number, list(given))
        ctx.number, ctx.given = number, len(given)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(each for index, each in enumerate(outputs) if index not in layer.varying))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        call = _CALLS[ctx.number]
        layer, outputs = call.layer, results_of(call.layer.forward)
        call.is_partial |= any(gradients[index] is None for index in layer.varying)
        given = [(index, gradients[index]) for index in layer.varying]
        found = iter(_BACKWARD(ctx.number, [_like(outputs[i]) if each is None else each for i, each in given]))
        made = {i: next(found) for i, each in zip(layer.wanted, results_of(layer.backward), strict=True) if each}
        return None, *(made.get(index) for index in range(ctx.given))


def _made_forward(call: int, given: list[Tensor]) -> list[Tensor]:
    layer = _CALLS[call].layer
    return [_like(each) for each in results_of(layer.forward)[: layer.outputs]]


def _made_backward(call: int, given: list[Tensor]) -> list[Tensor]:
    return [_like(each) for each in results_of(_CALLS[call].layer.backward) if each is not None]


def _like(node: fx.Node) -> Tensor:
    value = node.meta["val"]
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


torch.library.register_fake(f"{NAMESPACE}::layer_forward", _made_forward, lib=LIBRARY)
torch.library.register_fake(f"{NAMESPACE}::layer_backward", _made_backward, lib=LIBRARY)


def expand(graph: fx.GraphModule, calls: Sequence[Call]) -> None:
    """Puts the graphs of layers in the place of their calls."""
    by_number: dict[Any, Call] = {call.number: call for call in calls}
    # By call, what its backward pass is given before the gradients: the arguments of the forward pass, and what that
    # keeps.
    known: dict[Any, list[fx.Node]] = {}
    for node in list(graph.graph.nodes):
        number, given = _call(node)
        if node.target is _FORWARD:
            layer = by_number[number].layer
            results = _copied(node, layer.forward, given, by_number[number])
            known[number] = [*given, *results[layer.outputs :]]
            _replace(node, results)
        elif node.target is _BACKWARD:
            layer = by_number[number].layer
            _replace(node, _copied(node, layer.backward, [*known[number], *given], by_number[number]))
    graph.recompile()


def _call(node: fx.Node) -> tuple[Any, Any]:
    """The number of the call that a node stands for, and the nodes that it is given."""
    number, given = node.args if node.target in (_FORWARD, _BACKWARD) else (None, None)
    return number, given


def _copied(node: fx.Node, part: fx.Graph, given: Sequence[fx.Node], call: Call) -> list[fx.Node]:
    """The results of a layer's graph, copied in front of its call."""
    places = call.places()
    arguments = part.find_nodes(op="placeholder")
    copies: dict[fx.Node, fx.Node] = dict(zip(arguments, given, strict=True))
    draws = arguments[len(call.segment.inputs) + RANDOM - 1]
    operations = [each for each in part.nodes if each.op == "call_function"]
    with node.graph.inserting_before(node):
        for each in operations:
            copies[each] = copy = node.graph.node_copy(each, copies.__getitem__)
            copy.meta["custom"] = {**(each.meta.get("custom") or {}), origin.META_KEY: _moved(each, places)}
            copy.args = _own_draw(copy, call.drawn) if draws in each.args else copy.args
    return [copies[each] for each in results_of(part) if each is not None]


def _own_draw(node: fx.Node, drawn: int) -> tuple[Any, ...]:
    """The arguments of an operation that chooses a draw, numbered from the first of its layer."""
    draws, dim, number = node.args
    assert node.target is torch.ops.aten.select.int and isinstance(number, int), "a draw is chosen by its number"
    return draws, dim, number + drawn


def _moved(node: fx.Node, places: Mapping[origin.Origin, origin.Origin]) -> origin.Origin:
    """The origin of an operation in another call."""
    place = origin.of_node(node)
    own = places.get(place) or places.get(replace(place, part=""))
    return place if own is None else replace(own, part=place.part)


def _place(node: fx.Node) -> origin.Origin:
    return node.meta["custom"][origin.META_KEY]


def _replace(node: fx.Node, results: Sequence[fx.Node]) -> None:
    for user in list(node.users):
        assert user.target is operator.getitem
        index: Any = user.args[1]
        user.replace_all_uses_with(results[index])
        node.graph.erase_node(user)
    node.graph.erase_node(node)
