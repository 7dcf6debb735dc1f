"""Composites that models spell out in small operations: found in the exported graph and written as one call.

Matching is by structure and constants, never by class name, so that a look-alike keeps its own meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
_ADD = (aten.add.Tensor,)
_MUL = (aten.mul.Tensor,)
_CAST = (aten.to.dtype, aten._to_copy.default, aten.to.dtype_layout)


def fuse(graph: fx.GraphModule) -> None:
    """Rewrites RMS normalisation and tanh-GELU in place of their parts; nodes left without users are erased."""
    for node in list(graph.graph.nodes):
        for pattern in (_rms_norm, _tanh_gelu):
            if (call := pattern(node)) is None:
                continue
            target, args = call
            with graph.graph.inserting_after(node):
                fused = graph.graph.call_function(target, args)
            fused.meta.update(node.meta)
            node.replace_all_uses_with(fused)
            break
    graph.graph.eliminate_dead_code(is_impure_node=_has_effect)
    graph.recompile()


def whole_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMS normalisation over the last dimension; shape and dtype of `x`."""
    return torch.ops.dmc.rms_norm(x, weight, 1, eps)[0]


def _rms_norm(node: fx.Node) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """weight · cast(x · rsqrt(mean(x²) + eps)), the casts optional, in either order of the products."""
    for weight, scaled in _operands(node, _MUL):
        if not _is_vector(weight) or (found := _normalised(_uncast(scaled))) is None:
            continue
        x, eps = found
        if _shape(weight) == _shape(x)[-1:] and _dtype(node) == _dtype(x):
            return whole_rms_norm, (x, weight, eps)
    return None


def _normalised(node: Any) -> tuple[fx.Node, float] | None:
    for factor, x in _operands(node, _MUL):
        if not _is(factor, aten.rsqrt.default):
            continue
        for mean, eps in _operands(factor.args[0], _ADD):
            if isinstance(eps, float) and _is(mean, aten.mean.dim) and _is_square_mean(mean, x):
                return _uncast(x), eps
    return None


def _is_square_mean(mean: Any, x: Any) -> bool:
    square = mean.args[0]
    last = list(mean.args[1]) in ([-1], [len(_shape(x)) - 1])
    keeps = len(mean.args) > 2 and mean.args[2] is True
    is_power = _is(square, aten.pow.Tensor_Scalar) and square.args == (x, 2)
    return last and keeps and (is_power or (_is(square, aten.mul.Tensor) and square.args == (x, x)))


def _tanh_gelu(node: fx.Node) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))"""
    for half, one_plus in _operands(node, _MUL):
        for x, factor in _operands(half, _MUL):
            if factor != 0.5 or not isinstance(x, fx.Node):
                continue
            if any(one == 1.0 and _is_gelu_tanh(t, x) for t, one in _operands(one_plus, _ADD)):
                return torch.ops.dmc.gelu.default, (x, "tanh")
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


def _uncast(node: Any) -> Any:
    return node.args[0] if isinstance(node, fx.Node) and node.target in _CAST else node


def _is_vector(node: Any) -> bool:
    return isinstance(node, fx.Node) and len(_shape(node)) == 1


def _shape(node: fx.Node) -> list[int]:
    value = node.meta.get("val")
    return list(value.shape) if isinstance(value, torch.Tensor) else []


def _dtype(node: fx.Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _has_effect(node: fx.Node) -> bool:
    # In-place operations on buffers have no users but must stay; so must what draws, since draws are counted.
    schema = getattr(node.target, "_schema", None)
    draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return node.op in ("placeholder", "output") or draws or (schema is not None and schema.is_mutable)
