"""Composites that models spell out in small operations: found in the exported graph and replaced by one call.

Matching is by structure and constants, never by class name, so a class that only looks alike keeps its own meaning.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from dmc.importer import composites
from dmc.importer.forward.assertions import ASSERTS
from dmc.importer.torch_internals import VMAP_NESTING, draws_numbers, may_write, regions

__all__ = ["composites", "fuse", "whole_rms_norm"]

aten = torch.ops.aten
_ADD = (aten.add.Tensor,)
_MUL = (aten.mul.Tensor,)
_CAST = (aten.to.dtype, aten._to_copy.default, aten.to.dtype_layout)


@dataclass(frozen=True)
class _Call:
    """The equivalent of a node: `target(x, *others)`, with x read at the node."""

    target: Callable[..., Any]
    x: fx.Node
    others: tuple[Any, ...]


def fuse(graph: fx.GraphModule) -> None:
    """Rewrites RMS normalisation and tanh-GELU in place of their parts; unused nodes are erased."""
    nodes = list(graph.graph.nodes)
    # By node, the number of earlier nodes that wrote to a tensor.
    writes = dict(zip(nodes, itertools.accumulate((may_write(node) for node in nodes), initial=0), strict=False))
    for node in nodes:
        call = _rms_norm(node) or _tanh_gelu(node)
        # Between x and its last reader, x or its aliases may have been written.
        if call is None or writes[node] != writes[call.x] + may_write(call.x):
            continue
        with graph.graph.inserting_after(node):
            fused = graph.graph.call_function(call.target, (call.x, *call.others))
        fused.meta.update(node.meta)
        node.replace_all_uses_with(fused)
        writes[fused] = writes[node]
    _erase_unused(graph.graph)
    graph.recompile()


def whole_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, narrows: bool) -> torch.Tensor:
    """RMS normalisation over the last dimension, in the wider type of `x` and `weight`.

    `narrows`: the normalised value is rounded to the type of `x` before it is multiplied by `weight`.
    """
    if narrows:
        return torch.ops.dmc.rms_norm(x, torch.ones_like(weight), 1, eps)[0] * weight
    # Under mixed precision `x` may be narrower than in the exported graph.
    return torch.ops.dmc.rms_norm(x.to(torch.promote_types(x.dtype, weight.dtype)), weight, 1, eps)[0]


def _rms_norm(node: fx.Node) -> _Call | None:
    """weight · cast(x · rsqrt(mean(x²) + eps)), the casts optional, in either order of the products."""
    for weight, scaled in _operands(node, _MUL):
        product = _cast_from(scaled, torch.float32)
        if not _is_vector(weight) or (found := _normalised(product)) is None:
            continue
        x, eps = found
        narrows = product is not scaled and _dtype(scaled) != torch.float32
        if narrows and _dtype(scaled) != _dtype(x):
            continue
        if _shape(weight) == _shape(x)[-1:] and _dtype(node) == _dtype(x) == _dtype(weight) and _is_floating(x):
            return _Call(whole_rms_norm, x, (weight, eps, narrows))
    return None


def _normalised(node: Any) -> tuple[fx.Node, float] | None:
    for factor, x in _operands(node, _MUL):
        if not _is(factor, aten.rsqrt.default):
            continue
        for mean, eps in _operands(factor.args[0], _ADD):
            if isinstance(eps, float) and _is(mean, aten.mean.dim) and _is_square_mean(mean, x):
                return _widened(x), eps
    return None


def _is_square_mean(mean: Any, x: Any) -> bool:
    if mean.kwargs:
        return False
    square = mean.args[0]
    last = list(mean.args[1]) in ([-1], [len(_shape(x)) - 1])
    keeps = len(mean.args) > 2 and mean.args[2] is True
    if not _is(square, aten.pow.Tensor_Scalar) and not _is(square, aten.mul.Tensor):
        return False
    # The mean may be of wider numbers than the product.
    base, other = square.args
    is_power = square.target is aten.pow.Tensor_Scalar and other == 2
    is_product = square.target is aten.mul.Tensor and other is base
    return last and keeps and x in (base, _widened(base)) and (is_power or is_product)


def _tanh_gelu(node: fx.Node) -> _Call | None:
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))"""
    for half, one_plus in _operands(node, _MUL):
        for x, factor in _operands(half, _MUL):
            if factor != 0.5 or not isinstance(x, fx.Node) or not _is_floating(x):
                continue
            if any(one == 1.0 and _is_gelu_tanh(t, x) for t, one in _operands(one_plus, _ADD)):
                return _Call(torch.ops.dmc.gelu.default, x, ("tanh",))
    return None


def _is_gelu_tanh(node: Any, x: fx.Node) -> bool:
    if not _is(node, aten.tanh.default):
        return False
    for inner, scale in _operands(node.args[0], _MUL):
        if not isinstance(scale, float) or not math.isclose(scale, math.sqrt(2.0 / math.pi), rel_tol=1e-6):
            continue
        for cubic, other in _operands(inner, _ADD):
            if other is x and any(_is_cube(cube, x) and k == 0.044715 for cube, k in _operands(cubic, _MUL)):
                return True
    return False


def _is_cube(node: Any, x: fx.Node) -> bool:
    return _is(node, aten.pow.Tensor_Scalar) and node.args[0] is x and node.args[1] == 3


def _operands(node: Any, targets: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Both orders of the operands of a commutative operation; empty for any other node."""
    if not isinstance(node, fx.Node) or node.target not in targets or len(node.args) != 2 or node.kwargs:
        return []
    left, right = node.args
    return [(left, right), (right, left)]


def _is(node: Any, target: Any) -> bool:
    return isinstance(node, fx.Node) and node.target is target


def _cast_from(node: Any, dtype: torch.dtype) -> Any:
    """The operand of a cast if it has type `dtype`; for any other node, itself."""
    source = _source(node)
    return source if source is not None and _dtype(source) == dtype else node


def _widened(node: fx.Node) -> fx.Node:
    """The operand of a lossless cast to f32; for any other node, itself."""
    source = _source(node)
    return source if source is not None and _dtype(node) == torch.float32 and _is_floating(source) else node


def _source(node: Any) -> fx.Node | None:
    """The operand of `node` if it is a cast."""
    if not isinstance(node, fx.Node) or node.target not in _CAST:
        return None
    source = node.args[0]
    return source if isinstance(source, fx.Node) else None


def _is_vector(node: Any) -> bool:
    return isinstance(node, fx.Node) and len(_shape(node)) == 1


def _shape(node: fx.Node) -> list[int]:
    value = node.meta.get("val")
    return list(value.shape) if isinstance(value, torch.Tensor) else []


def _dtype(node: fx.Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _is_floating(node: fx.Node) -> bool:
    return _dtype(node) in (torch.float32, torch.bfloat16, torch.float16)


def _erase_unused(graph: fx.Graph) -> None:
    """Without the graphs of regions, as `eliminate_dead_code` would erase there what effects it does not know of."""
    for node in reversed(list(graph.nodes)):
        if not node.users and not _has_effect(node):
            graph.erase_node(node)


def _has_effect(node: fx.Node) -> bool:
    # In-place operations on buffers have no users but must stay, including in regions of another mode; so must draws,
    # which are counted.
    if node.op in ("placeholder", "output") or node.target in ASSERTS | VMAP_NESTING:
        return True
    if may_write(node) or draws_numbers(node.target):
        return True
    inner = [child for region in regions(node) for child in region.graph.nodes if child.op == "call_function"]
    return any(map(_has_effect, inner))
