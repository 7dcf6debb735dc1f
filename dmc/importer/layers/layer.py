"""A layer, traced once: a graph of its forward pass, and one of its backward pass, of what the first keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses import FakeTensorMode

from dmc.importer.composites.base import LIBRARY, NAMESPACE
from dmc.importer.forward.forward import Forward, Setting
from dmc.importer.forward.random_numbers.randomness import MAX_SITES, Randomness
from dmc.importer.layers.segments import Segment
from dmc.importer.torch_internals import untraced

LIBRARY.define("gradient_of(Tensor x) -> Tensor")
torch.library.register_fake(f"{NAMESPACE}::gradient_of", torch.empty_like, lib=LIBRARY)
# Stands for the gradient of an output; with the first of them the backward pass begins.
_GRADIENT = torch.ops.dmc.gradient_of.default
# Seed, counter and draws, which each layer takes behind its inputs.
RANDOM = 3


@dataclass(frozen=True)
class Layer:
    """The graphs of a layer, which return lists.

    forward: (inputs…, seed, counter, draws) -> (outputs…, kept…). backward: (the same…, kept…, gradients of the outputs
    in `varying`…) -> a gradient for each input in `wanted`, None where it does not matter. outputs: how many. draws:
    how many random numbers it draws.
    """

    forward: fx.Graph
    backward: fx.Graph
    outputs: int
    varying: tuple[int, ...]
    wanted: tuple[int, ...]
    draws: int


# Traces a function on examples of its arguments.
Tracer = Callable[[Callable[..., Any], list[Tensor]], fx.GraphModule]


def traced(segment: Segment, given: Sequence[Tensor], mixed: bool, trace: Tracer) -> Layer | None:
    """The layer of a segment, for inputs like `given`; None for one that asserts something, or cannot be traced alone.
    Another function may be being traced, which does not see this."""
    with untraced(), torch.enable_grad():
        return _traced(segment, given, mixed, trace)


def _traced(segment: Segment, given: Sequence[Tensor], mixed: bool, trace: Tracer) -> Layer | None:
    graph = _alone(segment)
    wanted = tuple(index for index, each in enumerate(given) if each.requires_grad)
    varying: tuple[int, ...] = ()
    random, conditions = Randomness(torch.empty([]), torch.empty([])), list[Any]()

    def both(*given: Tensor) -> list[Tensor | None]:
        nonlocal varying, random
        *inputs, seed, counter, draws = given
        random = Randomness(seed, counter, conditions)
        random.__dict__["draws"] = draws
        outputs = Forward(graph, Setting(random, (), {}, conditions), mixed).run(*inputs)
        varying = tuple(index for index, each in enumerate(outputs) if each.requires_grad)
        return [*outputs, *_gradients([outputs[index] for index in varying], [inputs[index] for index in wanted])]

    with FakeTensorMode():
        inputs = [_like(each).requires_grad_(each.requires_grad) for each in given]
        scalars = [torch.zeros([], dtype=torch.int64) for _ in range(2)]
        arguments = [*inputs, *scalars, torch.zeros([MAX_SITES], dtype=torch.int64)]
    try:
        whole = trace(both, arguments)
    except Exception:  # Whatever it is, it is raised again, with its place, where the operations are traced one by one.
        return None
    # Copies of a graph share no tensors.
    if conditions or whole.graph.find_nodes(op="get_attr"):
        return None
    return _split(whole.graph, len(segment.outputs), varying, wanted, random.sites)


def _alone(segment: Segment) -> fx.GraphModule:
    """A graph of the segment's operations: its outputs, of its inputs."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in segment.inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["val"] = node.meta["val"]
    for node in segment.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in segment.outputs))
    return fx.GraphModule(nn.Module(), graph)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _gradients(outputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Those of `wanted`, from those of the outputs."""
    with torch.no_grad():
        given = [_GRADIENT(each) for each in outputs]
    if not outputs:
        return [None] * len(wanted)
    return torch.autograd.grad(list(outputs), list(wanted), given, allow_unused=True)


def _split(graph: fx.Graph, outputs: int, varying: tuple[int, ...], wanted: tuple[int, ...], draws: int) -> Layer:
    """Cuts a graph of both passes where the backward pass begins."""
    results = results_of(graph)
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    given, gradients = graph.find_nodes(op="placeholder"), [node for node in nodes if node.target is _GRADIENT]
    cut = nodes.index(gradients[0]) if gradients else len(nodes)
    first, second = nodes[:cut], [node for node in nodes[cut:] if node.target is not _GRADIENT]
    needed = {each for node in second for each in node.all_input_nodes} | set(results[outputs:])
    kept = [node for node in first if node in needed]
    forward = _part(given, first, [*results[:outputs], *kept])
    backward = _part([*given, *kept, *gradients], second, results[outputs:])
    return Layer(forward, backward, outputs, varying, wanted, draws)


def _part(arguments: Sequence[fx.Node], nodes: Iterable[fx.Node], results: Sequence[Any]) -> fx.Graph:
    """The graph of some operations."""
    graph = fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in arguments}
    for node, copy in copies.items():
        copy.meta["val"] = node.meta["val"]
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([None if each is None else copies[each] for each in results])
    return graph


def results_of(graph: fx.Graph) -> list[Any]:
    """What a graph returns: nodes, or None."""
    results: Any = graph.output_node().args[0]
    return list(results)
