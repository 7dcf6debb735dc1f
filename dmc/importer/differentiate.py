"""The exported forward pass → one functional graph of forward, loss and backward.

PyTorch's own autograd differentiates while the graph is traced; composites stay whole, mutated buffers become results,
and every node carries the module and source line it comes from, on the way back too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from dmc.errors import DmcError, ImportFailure
from dmc.importer import decompositions, origin, patterns
from dmc.importer.capture import MODEL, Capture
from dmc.importer.precision import autocast
from dmc.importer.rules import DECLINE, RULES, Randomness

higher_order = torch.ops.higher_order


@dataclass(frozen=True)
class Gradients:
    """`graph`: (state…, seed, counter, batch…) -> (loss, aux…, new buffers…, gradients…).

    The state is in the order of `Capture.state`; `buffers` names the mutated buffers, `trained` the parameters that
    get a gradient, each in the order of the results; `aux` counts the auxiliary outputs.
    """

    graph: fx.GraphModule
    buffers: tuple[str, ...]
    trained: tuple[str, ...]
    aux: int


def differentiate(capture: Capture, mixed: bool, trainable: frozenset[str], decompose: bool = True) -> Gradients:
    """Traces forward, loss and backward of `capture`; `mixed` applies the rules of `precision.autocast`,
    `trainable` names the parameters that the optimizer holds. Without `decompose` all operations stay whole.

    Raises ImportFailure naming the operation, the module and the source line where tracing fails.
    """
    patterns.fuse(capture.graph)
    for node in capture.graph.graph.nodes:
        _note_origin(node)
    names = list(capture.state)
    buffers = [name for name in names if capture.kinds[name] == "buffer"]
    wanted = [name for name in names if name in trainable]
    if not wanted:
        raise ImportFailure(
            "the model", "no parameter in use requires a gradient", hint="unfreeze one, and give it to the optimizer"
        )

    def step(*flat: Tensor) -> list[Tensor | None]:
        values = dict(zip(names, flat, strict=False))
        seed, counter, *batch = flat[len(names) :]
        # In-place updates act on copies; functionalisation turns the last version of each into a result.
        values.update({name: values[name].clone() for name in buffers})
        forward = Forward(capture.graph, Randomness(seed, counter), mixed)
        loss, *aux = forward.run(*(values[name] for name in capture.inputs), *batch)
        if not loss.requires_grad:
            raise ImportFailure("loss", "does not depend on any parameter", hint="check torch.no_grad and detach")
        gradients = torch.autograd.grad(loss, [values[name] for name in wanted], allow_unused=True)
        return [loss, *aux, *(values[name] for name in buffers), *gradients]

    state = [_leaf(capture.state[name], name in wanted) for name in names]
    scalars = [torch.zeros([], dtype=torch.int64) for _ in range(2)]
    arguments = [*state, *scalars, *(tensor for _, tensor in capture.batch)]
    graph = trace(dispatch_functionalize(step), arguments, decompose)
    return _select(graph, names, buffers, wanted)


def trace(function: Any, arguments: list[Tensor], decompose: bool = True) -> fx.GraphModule:
    """The graph of `function`, decomposed for torch-mlir; origins of the running node are kept."""
    table = decompositions.table() if decompose else {}
    with traceback.preserve_node_meta():
        return make_fx(function, decomposition_table=table, tracing_mode="fake")(*arguments)


class Forward(fx.Interpreter):
    """Runs the exported graph with composites in place of the operations they mean."""

    def __init__(self, graph: fx.GraphModule, random: Randomness, mixed: bool) -> None:
        super().__init__(graph)
        self.random, self.mixed = random, mixed

    def run_node(self, n: fx.Node) -> Any:
        try:
            result = super().run_node(n)
        except DmcError as error:
            if error.place or n.op != "call_function":
                raise
            place = n.meta["custom"][origin.META_KEY]
            raise ImportFailure(f"{place}: {origin.op_name(n.target)}", error.fact, error.hint) from error
        _mark_backward(n, pytree.tree_leaves(result))
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is higher_order.wrap_with_set_grad_enabled:
            with torch.set_grad_enabled(args[0]):
                return self._run_inner(args[1], args[2:], self.mixed)
        if target is higher_order.wrap_with_autocast:
            return self._run_inner(args[4], args[5:], bool(args[2]) and self.mixed)
        if self.mixed:
            args, kwargs = autocast(target, args, kwargs)
        rule = RULES.get(target)
        result = DECLINE if rule is None else rule(self.random, *args, **kwargs)
        return super().call_function(target, args, kwargs) if result is DECLINE else result

    def _run_inner(self, graph: fx.GraphModule, args: Any, mixed: bool) -> Any:
        return Forward(graph, self.random, mixed).run(*args)


def _mark_backward(node: fx.Node, results: Iterable[Any]) -> None:
    """Lets the backward operations of `node` carry its origin."""
    meta = node.meta.get("custom")
    if meta and origin.META_KEY in meta:
        meta = {**meta, origin.META_KEY: replace(meta[origin.META_KEY], part="backward")}
    for result in results:
        if not meta or not isinstance(result, Tensor) or result.grad_fn is None:
            continue
        # What gives back its operand, as a cast to the same type does, has no backward operations of its own.
        if result.grad_fn.metadata.setdefault(origin.META_KEY, node) is not node:
            continue

        def enter(_: Any) -> None:
            traceback.current_meta = {**traceback.current_meta, "custom": meta}

        result.grad_fn.register_prehook(enter)


def _note_origin(node: fx.Node) -> None:
    if node.op == "call_function":
        node.meta["custom"] = {origin.META_KEY: origin.of_exported_node(node, MODEL)}
    if node.op == "get_attr" and isinstance(
        inner := getattr(node.graph.owning_module, str(node.target)), fx.GraphModule
    ):
        for child in inner.graph.nodes:
            _note_origin(child)


def _leaf(tensor: Tensor, trained: bool) -> Tensor:
    return tensor.detach().requires_grad_(trained)


def _select(graph: fx.GraphModule, names: list[str], buffers: list[str], wanted: list[str]) -> Gradients:
    """Drops the results of buffers that were not written and of parameters that got no gradient."""
    results = results_of(graph)
    gradients = results[len(results) - len(wanted) :]
    new_buffers = results[len(results) - len(wanted) - len(buffers) : len(results) - len(wanted)]
    heads = results[: len(results) - len(wanted) - len(buffers)]
    placeholders = dict(zip(names, graph.graph.find_nodes(op="placeholder"), strict=False))
    mutated = {n: v for n, v in zip(buffers, new_buffers, strict=True) if not _is_copy(v, placeholders[n])}
    trained = {n: v for n, v in zip(wanted, gradients, strict=True) if v is not None}
    graph.graph.output_node().args = ([*heads, *mutated.values(), *trained.values()],)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return Gradients(graph, tuple(mutated), tuple(trained), len(heads) - 1)


def results_of(graph: fx.GraphModule) -> list[Any]:
    """The nodes that a traced graph returns; None where it returns none."""
    results: Any = graph.graph.output_node().args[0]
    return list(results)


def _is_copy(value: Any, source: fx.Node) -> bool:
    while value is not source and value.target in (torch.ops.aten.clone.default, torch.ops.aten.alias.default):
        value = value.args[0]
    return value is source
