"""ATen operations of the forward pass → composites."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from dmc.importer import composites
from dmc.importer.composites.cross_entropy import cross_entropy
from dmc.importer.forward import expansion, linear_systems, losses, rnn
from dmc.importer.forward.chosen import assignments
from dmc.importer.forward.images import grid_sampling, pooling, upsampling
from dmc.importer.forward.random_numbers.distributions import DISTRIBUTIONS, Distribution, rrelu_with_noise
from dmc.importer.forward.random_numbers.randomness import Randomness, undrawable
from dmc.importer.forward.registry import DECLINE, RULES, Rule, rule
from dmc.importer.forward.rows import distances, embeddings, experts, segments
from dmc.importer.torch_internals import arguments_of, draws_numbers

__all__ = [
    "DECLINE",
    "RULES",
    "assignments",
    "composites",
    "distances",
    "embeddings",
    "experts",
    "grid_sampling",
    "linear_systems",
    "pooling",
    "rnn",
    "segments",
    "upsampling",
]

aten = torch.ops.aten


@rule(aten.dropout.default)
def _dropout(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return random.dropout(x, p) if train and p > 0.0 else x


@rule(aten.feature_dropout.default)
def _feature_dropout(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return random.feature_dropout(x, p) if train and p > 0.0 else x


@rule(aten.alpha_dropout.default)
def _alpha_dropout(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return random.alpha_dropout(x, p, by_channel=False) if train and p > 0.0 else x


@rule(aten.feature_alpha_dropout.default)
def _feature_alpha_dropout(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return random.alpha_dropout(x, p, by_channel=True) if train and p > 0.0 else x


@rule(aten.dropout_.default)
def _dropout_in_place(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return x.copy_(_dropout(random, x, p, train))


@rule(aten.feature_dropout_.default)
def _feature_dropout_in_place(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return x.copy_(_feature_dropout(random, x, p, train))


@rule(aten.alpha_dropout_.default)
def _alpha_dropout_in_place(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return x.copy_(_alpha_dropout(random, x, p, train))


@rule(aten.feature_alpha_dropout_.default)
def _feature_alpha_dropout_in_place(random: Randomness, x: Tensor, p: float, train: bool) -> Any:
    return x.copy_(_feature_alpha_dropout(random, x, p, train))


@rule(aten.native_dropout.default)
def _native_dropout(random: Randomness, x: Tensor, p: float, train: bool | None) -> Any:
    kept = torch.ones_like(x)
    mask = random.dropout(kept, p) if train and p > 0.0 else kept
    return x * mask, mask != 0


@rule(aten.bernoulli_.float)
def _bernoulli_in_place(random: Randomness, x: Tensor, p: float = 0.5) -> Any:
    return x.copy_(random.coins(x, p))


def _distribution(drawn: Distribution) -> Rule:
    return lambda random, *given, **options: drawn(random.stream(), *given, **options)


RULES.update({operation: _distribution(drawn) for operation, drawn in DISTRIBUTIONS.items()})


@rule(aten.rrelu_with_noise.default)
def _rrelu_with_noise(
    random: Randomness, x: Tensor, noise: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False
) -> Any:
    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2.0)
    return rrelu_with_noise(random.stream(), x, noise, lower, upper)


def refuse_randomness(target: Any, args: Any, kwargs: Any) -> None:
    """Raises ImportFailure for an operation that draws random numbers and has no rule."""
    if not isinstance(target, OpOverload) or not draws_numbers(target):
        return
    given = arguments_of(target, args, kwargs)
    if given.get("train") is False or given.get("training") is False or given.get("dropout") == 0.0:
        return
    raise undrawable(None)


@rule(aten.rrelu.default)
def _rrelu(random: Randomness, x: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Any:
    return _rrelu_with_noise(random, x, torch.ones_like(x), lower, upper, training)


@rule(aten.gelu.default)
def _gelu(random: Randomness, x: Tensor, *, approximate: str = "none") -> Any:
    return torch.ops.dmc.gelu(x, approximate)


@rule(aten.layer_norm.default)
def _layer_norm(
    random: Randomness,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    weight = x.new_ones(shape) if weight is None else weight
    bias = torch.zeros_like(weight) if bias is None else bias
    return torch.ops.dmc.layer_norm(x, weight, bias, len(shape), eps)[0]


@rule(aten.rms_norm.default)
def _rms_norm(
    random: Randomness, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    weight = x.new_ones(shape) if weight is None else weight
    # PyTorch's default is that of the type in which it computes.
    eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if eps is None else eps
    return torch.ops.dmc.rms_norm(x, weight, len(shape), eps)[0]


@rule(aten.scaled_dot_product_attention.default)
def _attention(
    random: Randomness,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if enable_gqa:
        k, v = (_repeat_heads(x, q.shape[-3] // x.shape[-3]) for x in (k, v))
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -math.inf)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    draw = random.draw(dropout_p) if 0.0 < dropout_p < 1.0 else random.counter
    return torch.ops.dmc.attention(q, k, v, mask, random.seed, draw, float(dropout_p), float(scale), is_causal)[0]


@rule(aten.cross_entropy_loss.default)
def _cross_entropy(
    random: Randomness,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    if target.is_floating_point():
        return DECLINE
    if weight is not None or reduction == 0 or logits.dim() < 2:
        return losses.cross_entropy(logits, target, weight, reduction, ignore_index, label_smoothing)
    flat = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    return cross_entropy(flat, target.reshape(-1), ignore_index, float(label_smoothing), reduction == 1)


@rule(aten._weight_norm.default)
def _weight_norm(random: Randomness, v: Tensor, g: Tensor, dim: int = 0) -> Any:
    return v * (g / torch.norm_except_dim(v, 2, dim))


@rule(aten.nll_loss.default, aten.nll_loss2d.default, aten.nll_loss_nd.default)
def _nll_loss(random: Randomness, x: Tensor, target: Tensor, *options: Any, **named: Any) -> Any:
    return losses.nll(x, target, *options, **named)


@rule(aten.gather.default)
def _gather(random: Randomness, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    safe, in_range = _in_range(index, x.shape[dim] if x.dim() else 1, wraps=False)
    return _or_nan(in_range, aten.gather.default(x, dim, safe))


@rule(aten.index_select.default)
def _index_select(random: Randomness, x: Tensor, dim: int, index: Tensor) -> Any:
    if x.dim() == 0:
        return x.clone()
    index = index.reshape(-1)
    safe, in_range = _in_range(index, x.shape[dim], wraps=False)
    view = [1] * x.dim()
    view[dim] = index.numel()
    return _or_nan(in_range.view(view), aten.index_select.default(x, dim, safe))


@rule(aten.take.default)
def _take(random: Randomness, x: Tensor, index: Tensor) -> Any:
    return _index(random, x.reshape(-1), [index])


@rule(aten.index.Tensor)
def _index(random: Randomness, x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype == torch.bool for index in given):
        return DECLINE
    first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    x = x.movedim(dims, list(range(len(dims))))
    pairs = [_in_range(index.long(), size, wraps=True) for index, size in zip(given, x.shape, strict=False)]
    in_range = torch.broadcast_tensors(*(ok for _, ok in pairs))
    inside = functools.reduce(torch.logical_and, in_range)
    rows = aten.index.Tensor(x, [safe for safe, _ in pairs])
    rows = _or_nan(inside.view([*inside.shape, *[1] * (rows.dim() - inside.dim())]), rows)
    # Indices side by side give their dimensions where they stand; others give them first.
    return rows.movedim(list(range(inside.dim())), list(range(first, first + inside.dim())))


def _expansion(operation: OpOverload) -> Rule:
    return lambda random, *given, **options: expansion.expanded(operation, *given, **options)


RULES.update({operation: _expansion(operation) for operation in expansion.OPERATIONS})


@rule(aten.pad.default)
def _pad(random: Randomness, x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    return _replication_pad(random, x, pad) if mode == "replicate" else DECLINE


@rule(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def _replication_pad(random: Randomness, x: Tensor, padding: Sequence[int]) -> Tensor:
    for number in range(len(padding) // 2):
        dim, (first, last) = x.dim() - 1 - number, padding[2 * number : 2 * number + 2]
        place = torch.arange(-first, x.shape[dim] + last, device=x.device)
        x = x.index_select(dim, place.clamp(0, x.shape[dim] - 1))
    return x


def _in_range(index: Tensor, size: int, wraps: bool) -> tuple[Tensor, Tensor]:
    """`index` clamped to [0, size), and where it was valid (from -size on, where negative indices count from the
    end)."""
    shifted = torch.where(index < 0, index + size, index) if wraps else index
    return shifted.clamp(0, size - 1), (shifted >= 0) & (shifted < size)


def _or_nan(in_range: Tensor, value: Tensor) -> Tensor:
    """An element read out of range is NaN, which propagates to the loss; other types have no such value."""
    return torch.where(in_range, value, math.nan) if value.is_floating_point() else value


def _repeat_heads(x: Tensor, times: int) -> Tensor:
    *batch, heads, length, width = x.shape
    return x.unsqueeze(-3).expand(*batch, heads, times, length, width).reshape(*batch, heads * times, length, width)
