"""Operations that change the shape of a tensor in place, as `transpose_`: they become views.

A view that was taken before, and is written after, keeps its place in memory. PyTorch's gradient of such a write, while
it is functionalised, would look for the place in the changed shape.
"""

from __future__ import annotations

import torch
from torch import fx, ops
from torch._ops import OpOverload

from dmc.importer.torch_internals import arguments_of, may_write, updates_statistics

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
_CONVERSIONS = (aten.to.dtype, aten.to.device, aten.to.dtype_layout, aten.to.other, aten.type_as.default)


def turn_by_views(graph: fx.GraphModule) -> None:
    """Rewrites an exported graph and its regions. State is left: it would keep its old shape."""
    graphs = [each for each in graph.modules() if isinstance(each, fx.GraphModule)]
    for node in [node for each in graphs for node in each.graph.nodes if node.target in _VIEWS]:
        _without_conversions(node)
    for node in (node for each in graphs for node in each.graph.nodes):
        if node.target in _VIEWS and _itself(node).op == "call_function":
            node.target = _VIEWS[node.target]
    for each in graphs:
        each.recompile()


def _without_conversions(node: fx.Node) -> None:
    """Takes away conversions to the type that a tensor has already, which return the tensor itself, before `node`."""
    made = node.args[0]
    while isinstance(made, fx.Node) and isinstance(made.target, OpOverload) and made.target in _CONVERSIONS:
        first = made.args[0]
        assert isinstance(first, fx.Node)
        given = arguments_of(made.target, made.args, made.kwargs)
        is_laid_out = given.get("memory_format") not in (None, torch.preserve_format)
        if given.get("copy") or is_laid_out or first.meta["val"].dtype != made.meta["val"].dtype:
            return
        made.replace_all_uses_with(first)
        made = first


def _itself(node: fx.Node) -> fx.Node:
    """What gave the tensor that is changed in place, perhaps again and again."""
    while node.op == "call_function" and may_write(node) and not updates_statistics(node.target):
        first = node.kwargs.get("out", node.args[0])
        assert isinstance(first, fx.Node)
        node = first
    return node
