"""The exported forward pass → one functional graph of forward, loss and backward.

PyTorch's own autograd differentiates while the graph is traced; composites stay whole, mutated buffers become results,
and every node carries its module and source line, in the backward pass, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx

from dmc.errors import DmcError, ImportFailure
from dmc.importer import origin
from dmc.importer.capture.capture import MODEL, Capture
from dmc.importer.capture.checks import check_traced
from dmc.importer.capture.indices import Unchecked, unchecked
from dmc.importer.capture.registered import carries_gradient
from dmc.importer.decompositions import constants, conversions, decompositions
from dmc.importer.forward import patterns
from dmc.importer.forward.assertions import holding
from dmc.importer.forward.attention.masks import recognise_masks
from dmc.importer.forward.attention.scores import recognise_biases
from dmc.importer.forward.forward import Forward, LayerCall, Setting
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.layers.calls import calling, expand
from dmc.importer.layers.outline import outlined
from dmc.importer.python.calls import add_hook, untraceable
from dmc.importer.torch_internals import (
    compiled_when_called,
    may_write,
    unmapped_after_errors,
    without_matrix_checks,
)


@dataclass(frozen=True)
class Gradients:
    """`graph`: (state…, seed, counter, batch…) -> (loss, aux…, written state…, gradients…).

    The state is in the order of `Capture.state`; `written` names the buffers and parameters that the forward pass
    mutates, `trained` the parameters that get a gradient, each in the order of the results; `aux` is the number of
    auxiliary outputs.
    """

    graph: fx.GraphModule
    written: tuple[str, ...]
    trained: tuple[str, ...]
    aux: int


def differentiate(
    capture: Capture,
    mixed: bool,
    trainable: frozenset[str],
    accumulate: int = 1,
    decompose: bool = True,
    trains: bool = True,
) -> Gradients:
    """Traces forward, loss and backward of `capture`; `mixed` applies the rules of `precision.autocast`, `trainable`
    names the parameters that the optimizer holds, `accumulate` is the number of micro-batches. Without `decompose`
    nothing is decomposed. trains: whether there is an optimizer; without, the step only changes buffers.

    Raises ImportFailure naming the operation, the module and the source line where tracing fails.
    """
    arranged(capture)
    indices = unchecked(capture.graph, capture.batch, accumulate)
    names = list(capture.state)
    wanted = _wanted(names, trainable, trains)
    # Users' backward passes and hooks see a micro-batch's gradient as in eager: that of its share of the mean.
    parts = accumulate if capture.calls or any(capture.hooks[name] for name in wanted) else 1

    calls = outlined(capture, mixed, set(indices), partial(trace_functional, capture, decompose=decompose))
    layers = {each.segment.nodes[0]: each for each in calls}

    def step(*flat: Tensor) -> list[Tensor | None]:
        values, (loss, *aux) = forward_of(capture, flat, trainable, mixed, indices, layers)
        _check_gradients(loss if trains else None, {name: values[name] for name in names if name not in trainable})
        gradients = _gradients(capture, loss, [values[name] for name in wanted], parts) if trains else []
        return [loss, *aux, *(values[name] for name in names), *gradients]

    state = [_leaf(capture.state[name], name in wanted) for name in names]
    scalars = [torch.zeros([], dtype=torch.int64) for _ in range(2)]
    arguments = [*state, *scalars, *(tensor for _, tensor in capture.batch)]
    with calling(calls):
        graph = trace_functional(capture, step, arguments, decompose)
    if any(call.is_partial for call in calls):
        # What no output with a gradient depends on has none; a layer's backward pass would give it zeros.
        layers.clear()
        graph = trace_functional(capture, step, arguments, decompose)
    elif calls:
        expand(graph, calls)
        _rewrite(graph.graph)
    check_traced(graph)
    return select(graph, names, wanted)


def _wanted(names: Sequence[str], trainable: frozenset[str], trains: bool) -> list[str]:
    """The parameters that are to get a gradient; raises ImportFailure where none is."""
    wanted = [name for name in names if name in trainable]
    if trains and not wanted:
        raise ImportFailure(
            "the model", "no parameter in use requires a gradient", hint="unfreeze one, and pass it to the optimizer"
        )
    return wanted


def arranged(capture: Capture) -> None:
    """Prepares the exported graph for tracing: masks and composites that are spelled out, and origins."""
    recognise_masks(capture.graph)
    recognise_biases(capture.graph)
    patterns.fuse(capture.graph)
    _note_origins(capture.graph.graph)


def forward_of(
    capture: Capture,
    flat: Sequence[Tensor],
    trainable: frozenset[str],
    mixed: bool,
    indices: Unchecked,
    layers: Mapping[fx.Node, LayerCall] = MappingProxyType({}),
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Runs forward pass and loss on (state…, seed, counter, batch…): the state afterwards by name; loss and auxiliary
    outputs. indices: those that the graph must find in range. layers: those that are traced once."""
    names = list(capture.state)
    values = dict(zip(names, flat, strict=False))
    seed, counter, *batch = flat[len(names) :]
    # In-place updates modify copies; functionalisation returns the last version of each.
    values.update({name: values[name].clone() for name in names if name not in trainable})
    for name in [name for name in names if name in trainable]:
        for hook in capture.hooks[name]:
            add_hook(values[name], hook)
    read_only = {name: values[name] for name in names if capture.kinds[name] == "constant"}
    read_only |= {name: tensor for (name, _), tensor in zip(capture.batch, batch, strict=True)}
    conditions: list[Any] = []
    random = Randomness(seed, counter, conditions)
    setting = Setting(random, capture.calls, read_only, conditions, unchecked=indices, layers=layers)
    forward = Forward(capture.graph, setting, mixed)
    with unmapped_after_errors():
        loss, *others = forward.run(*(values[name] for name in capture.inputs), *batch)
    outputs = [holding(loss, conditions), *others]
    kept = len(outputs) - len(capture.replaced)
    values.update(zip(capture.replaced, outputs[kept:], strict=True))
    return values, outputs[:kept]


def _check_gradients(loss: Tensor | None, kept: Mapping[str, Tensor]) -> None:
    """loss: None where nothing is trained."""
    if loss is not None and not loss.requires_grad:
        raise ImportFailure("loss", "does not depend on any parameter", hint="check torch.no_grad and detach")
    for name, tensor in kept.items():
        # What the model takes a gradient with respect to, by itself, is a leaf.
        if tensor.requires_grad and not tensor.is_leaf:
            raise carries_gradient("the model or its loss", name)


def _gradients(capture: Capture, loss: Tensor, wanted: list[Tensor], parts: int) -> list[Tensor | None]:
    """The gradients of `loss`, one of `parts` terms of a mean."""
    share = None if parts == 1 else torch.full_like(loss, 1 / parts)
    try:
        gradients: Sequence[Tensor | None] = list(torch.autograd.grad(loss, wanted, share, allow_unused=True))
    except DmcError:
        raise
    except Exception as error:  # Users' code may raise anything.
        raise _not_differentiable(capture, error) from error
    return [gradient if gradient is None or parts == 1 else gradient * parts for gradient in gradients]


def _not_differentiable(capture: Capture, error: Exception) -> ImportFailure:
    """The error for a forward pass whose gradient PyTorch cannot take."""
    if "backward or vjp method" in str(error):
        calls = [each for each in capture.calls if each.lacks_backward]
        hint = "define backward(ctx, …) as a static method, or detach its result where no gradient is wanted"
        return ImportFailure(calls[0].name if calls else "the model", "has no method `backward`", hint)
    shape = re.search(r"modified by an inplace operation: \[[\w.]+ \[([\d, ]*)\]\]", str(error))
    if shape is None:
        return untraceable("the backward pass", error)
    writers = [node for node in capture.graph.graph.nodes if may_write(node) and _shape(node) == f"[{shape[1]}]"]
    places = list(dict.fromkeys(str(origin.of_node(node)) for node in writers)) or ["the model or its loss"]
    fact = f"writes in place into a tensor of shape [{shape[1]}] whose old values the backward pass needs, as in eager"
    return ImportFailure(" or ".join(places), fact, hint="compute a new tensor (y = y + 1), or write into a .clone()")


def _shape(node: fx.Node) -> str:
    value = node.meta.get("val")
    return str(list(value.shape)) if isinstance(value, Tensor) else ""


def trace_functional(
    capture: Capture, function: Any, arguments: list[Tensor], decompose: bool = True
) -> fx.GraphModule:
    """The graph of `function`, which runs `capture`, without operations that write their operands.

    Replacing them takes a third of the time of tracing, so that is done only where there are any: in what was exported,
    or in the formulas of gradients. Hooks and functions of users may do anything, and are called once.
    """
    calls_users = bool(capture.calls) or any(capture.hooks.values())
    if calls_users or _writes(capture.graph):
        return trace(dispatch_functionalize(function), arguments, decompose)
    return trace_pure(function, arguments, decompose)


def trace_pure(function: Any, arguments: list[Tensor], decompose: bool = True) -> fx.GraphModule:
    """The graph of a function that writes nothing itself; formulas of gradients may."""
    graph = trace(function, arguments, decompose)
    return trace(dispatch_functionalize(function), arguments, decompose) if _writes(graph) else graph


def _writes(graph: fx.GraphModule) -> bool:
    return any(may_write(node) for node in graph.graph.nodes)


def trace(function: Any, arguments: list[Tensor], decompose: bool = True) -> fx.GraphModule:
    """The graph of `function`, decomposed for torch-mlir; the running node's origin is recorded."""
    table = decompositions.table() if decompose else {}
    with traceback.preserve_node_meta(), compiled_when_called(), without_matrix_checks():
        graph = make_fx(function, decomposition_table=table, tracing_mode="fake")(*arguments)
    _rewrite(graph.graph)
    return graph


def _rewrite(graph: fx.Graph) -> None:
    constants.fold(graph)
    conversions.undo_round_trips(graph)
    conversions.before_conversions(graph)


def _note_origins(graph: fx.Graph) -> None:
    for node in graph.nodes:
        _note_origin(node)


def _note_origin(node: fx.Node) -> None:
    if node.op == "call_function":
        node.meta["custom"] = {origin.META_KEY: origin.of_exported_node(node, MODEL)}
    if node.op == "get_attr" and isinstance(
        inner := getattr(node.graph.owning_module, str(node.target)), fx.GraphModule
    ):
        _note_origins(inner.graph)


def _leaf(tensor: Tensor, trained: bool) -> Tensor:
    return tensor.detach().requires_grad_(trained)


def select(graph: fx.GraphModule, names: list[str], wanted: list[str]) -> Gradients:
    """Drops results for state that was not written and for parameters without a gradient."""
    results = results_of(graph)
    gradients = results[len(results) - len(wanted) :]
    after = results[len(results) - len(wanted) - len(names) : len(results) - len(wanted)]
    heads = results[: len(results) - len(wanted) - len(names)]
    placeholders = graph.graph.find_nodes(op="placeholder")
    written = {
        name: value
        for name, value, before in zip(names, after, placeholders, strict=False)
        if before.meta["val"].numel() and not _is_copy(value, before)
    }
    trained = {n: v for n, v in zip(wanted, gradients, strict=True) if v is not None}
    graph.graph.output_node().args = ([*heads, *written.values(), *trained.values()],)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return Gradients(graph, tuple(written), tuple(trained), len(heads) - 1)


def results_of(graph: fx.GraphModule) -> list[Any]:
    """The nodes that a traced graph returns, with None for results that are none."""
    results: Any = graph.graph.output_node().args[0]
    return list(results)


def _is_copy(value: Any, source: fx.Node) -> bool:
    while value is not source and value.target in _COPIES:
        value = value.args[0]
    return value is source


_COPIES = (torch.ops.aten.clone.default, torch.ops.aten.alias.default, torch.ops.aten.detach.default)
