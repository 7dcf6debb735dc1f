"""Conversions of types: those that undo each other, and those of more than is read."""

from __future__ import annotations

import torch
from torch import Tensor, fx

aten, prims = torch.ops.aten, torch.ops.prims
_SLICE, _CONVERT = aten.slice.Tensor, prims.convert_element_type.default
# Larger parts are left where they are: most of the tensor is converted anyway.
_FEWEST = 4


# From each of these to a wider one and back, every number stays what it is.
_WITHIN = {
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
}


def undo_round_trips(graph: fx.Graph) -> None:
    """A tensor that is widened and then narrowed again is read as it was.

    LoRA computes in the type of its matrices, f32, and under autocast a product narrows its operands: what the layer
    beside it reads would exist twice.
    """
    for node in graph.find_nodes(op="call_function", target=_CONVERT):
        wide = node.args[0]
        narrow = wide.args[0] if isinstance(wide, fx.Node) and wide.target is _CONVERT else None
        if isinstance(narrow, fx.Node) and _is_within(narrow, wide) and node.args[1] == narrow.meta["val"].dtype:
            node.replace_all_uses_with(narrow)
            graph.erase_node(node)
            if not wide.users:
                graph.erase_node(wide)


def _is_within(narrow: fx.Node, wide: fx.Node) -> bool:
    return wide.meta["val"].dtype in _WITHIN.get(narrow.meta["val"].dtype, ())


def before_conversions(graph: fx.Graph) -> None:
    """A small slice of a converted tensor becomes a converted slice."""
    for node in list(graph.nodes):
        source = node.args[0] if node.target is _SLICE else None
        if isinstance(source, fx.Node) and source.target is _CONVERT and _is_small(node, source):
            _exchange(node, source)


def _is_small(node: fx.Node, source: fx.Node) -> bool:
    part, whole = node.meta.get("val"), source.meta.get("val")
    return isinstance(part, Tensor) and isinstance(whole, Tensor) and part.numel() * _FEWEST <= whole.numel()


def _exchange(node: fx.Node, source: fx.Node) -> None:
    whole = source.args[0]
    assert isinstance(whole, fx.Node)
    with node.graph.inserting_before(node):
        part = node.graph.call_function(_SLICE, (whole, *node.args[1:]), dict(node.kwargs))
        converted = node.graph.call_function(_CONVERT, (part, *source.args[1:]), dict(source.kwargs))
    converted.meta = dict(node.meta)
    part.meta = {name: each for name, each in node.meta.items() if name != "tensor_meta"}
    part.meta["val"] = node.meta["val"].to(whole.meta["val"].dtype)
    node.replace_all_uses_with(converted)
    node.graph.erase_node(node)
