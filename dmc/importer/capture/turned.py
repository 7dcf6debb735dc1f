"""Operations that change the shape of a tensor in place, as `transpose_`: they become views.

A view that was taken before, and is written after, keeps its place in memory. PyTorch's gradient of such a write, while
it is functionalised, would look for the place in the changed shape.
"""

from __future__ import annotations

import torch
from torch import fx, ops
from torch._ops import OpOverload
from torch._subclasses import FakeTensor

from dmc.importer.torch_internals import is_mutable, may_write, updates_statistics

aten = ops.aten
_VIEWS = {
    aten.transpose_.default: aten.transpose.int,
    aten.swapaxes_.default: aten.swapaxes.default,
    aten.swapdims_.default: aten.swapdims.default,
    aten.t_.default: aten.t.default,
    aten.squeeze_.default: aten.squeeze.default,
    aten.squeeze_.dim: aten.squeeze.dim,
    aten.squeeze_.dims: aten.squeeze.dims,
    aten.unsqueeze_.default: aten.unsqueeze.default,
}


def turn_by_views(graph: fx.GraphModule) -> None:
    """Rewrites an exported graph and its regions. State is left: it would keep its old shape."""
    graphs = [each for each in graph.modules() if isinstance(each, fx.GraphModule)]
    for node in [node for each in graphs for node in each.graph.nodes if node.target in _VIEWS]:
        _read_past_identities(node)
    for node in (node for each in graphs for node in each.graph.nodes):
        if node.target in _VIEWS and _itself(node).op == "call_function":
            node.target = _VIEWS[node.target]
    for each in graphs:
        each.recompile()


def _read_past_identities(node: fx.Node) -> None:
    """Takes away what returns its operand itself before `node`: conversions to the same type, dropout in eval mode …"""
    made = node.args[0]
    while isinstance(made, fx.Node) and (given := _operand_given_back(made)) is not None:
        made.replace_all_uses_with(given)
        made = given


def _operand_given_back(node: fx.Node) -> fx.Node | None:
    """The operand that an operation returns as it is, found by running it on tensors without data."""
    first = node.args[0] if node.args else None
    if not isinstance(first, fx.Node) or not isinstance(node.target, OpOverload) or is_mutable(node.target):
        return None
    operand = first.meta["val"]
    if not isinstance(operand, FakeTensor):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    with operand.fake_mode, torch.no_grad():
        return first if node.target(*args, **kwargs) is operand else None


def _itself(node: fx.Node) -> fx.Node:
    """What gave the tensor that is changed in place, perhaps again and again."""
    while node.op == "call_function" and may_write(node) and not updates_statistics(node.target):
        first = node.kwargs.get("out", node.args[0])
        assert isinstance(first, fx.Node)
        node = first
    return node
