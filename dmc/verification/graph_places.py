"""Where a PyTorch graph begins to differ from the one before it: module, line and operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from dmc.importer import origin
from dmc.importer.capture.capture import MODEL
from dmc.importer.decompositions import decompositions
from dmc.runtime.comparison.difference import difference
from dmc.runtime.comparison.tolerance import Tolerance
from dmc.verification.arrays import array_of
from dmc.verification.graphs import Graphs, Joint, Trace
from dmc.verification.reference import ModuleOutputs


def of_export(eager: ModuleOutputs, now: Trace, tolerance: Tolerance) -> str:
    """The first eager module whose output is not among the results of its operations in the exported graph."""
    for path, output in eager:
        own = [value for name, values in now.values.items() if _is_in(now.nodes[name], path) for value in values]
        alike = [each for each in map(array_of, own) if each.shape == output.shape and each.dtype == output.dtype]
        if not any(difference("", each, output, tolerance) is None for each in alike):
            return f"module '{path}'" if path else "the model"
    return ""


def between(before: Trace, now: Trace, tolerance: Tolerance) -> str:
    """The first node of `now` whose value or, in the backward pass, gradient differs from that in `before`."""
    for name, values in now.values.items():
        if name in before.values and not _agree(before.values[name], values, tolerance):
            node = now.nodes[name]
            new = [source for source in node.all_input_nodes if source.name not in before.values]
            return _place(new[0] if new else node)
    # In the order of the backward pass.
    for name in now.gradients:
        if name in before.gradients and not _agree([before.gradients[name]], [now.gradients[name]], tolerance):
            users = [user for user in now.nodes[name].users if user.name in now.values]
            return f"{_place(users[0] if users else now.nodes[name])}, backward"
    return ""


def of_decomposition(graphs: Graphs, tolerance: Tolerance) -> str:
    """The first operation whose decomposition computes a different result."""
    checked = _Checked(graphs.whole().graph, tolerance)
    with torch.no_grad():
        checked.run(*graphs.arguments())
    return checked.found


class _Checked(Joint):
    """Runs a graph; for each operation with a decomposition, also runs that on the same operands."""

    def __init__(self, graph: fx.GraphModule, tolerance: Tolerance) -> None:
        super().__init__(graph)
        self.tolerance = tolerance
        self.table = decompositions.table()
        self.found = ""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        copies = pytree.tree_map_only(Tensor, torch.clone, (args, kwargs))
        result = super().call_function(target, args, kwargs)
        if not self.found and target in self.table:
            with _Decomposing(self.table):
                decomposed = target(*copies[0], **copies[1])
            if not _agree(_tensors(result), _tensors(decomposed), self.tolerance):
                self.found = f"{origin.op_name(target)}"
        return result

    def run_node(self, n: fx.Node) -> Any:
        had = self.found
        result = super().run_node(n)
        if self.found and not had:
            self.found = f"{origin.of_node(n)}: {self.found}"
        return result


class _Decomposing(TorchDispatchMode):
    """Inside, a table decomposes operations."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = table

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in self.table:
            return func(*args, **kwargs)
        with self:
            result = self.table[func](*args, **kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result


def _agree(one: list[Tensor], other: list[Tensor], tolerance: Tolerance) -> bool:
    pairs = zip(one, other, strict=False)
    return all(difference("", array_of(b), array_of(a), tolerance) is None for a, b in pairs)


def _tensors(result: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


def _is_in(node: fx.Node, path: str) -> bool:
    """Whether a node of the exported graph belongs to the module at `path`; a module may return its inputs."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [each for each, _ in stack.values()]
    return node.op == "placeholder" or (f"{MODEL}.{path}" if path else MODEL) in paths


def _place(node: fx.Node) -> str:
    if node.op != "call_function":
        return f"'{node.target}'"
    return f"{origin.of_exported_node(node, MODEL)}: {origin.op_name(node.target)}"
