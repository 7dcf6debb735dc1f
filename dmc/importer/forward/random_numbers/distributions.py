"""PyTorch's operations that draw random numbers, each of a place's `Stream`.

The importer replaces them by these, and verification lets eager draw the same (`dmc/verification/draws.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from dmc.errors import ImportFailure
from dmc.importer.forward.random_numbers.streams import Stream

aten = torch.ops.aten

Distribution = Callable[..., Any]
DISTRIBUTIONS: dict[OpOverload, Distribution] = {}


def _draws(*operations: OpOverload) -> Callable[[Distribution], Distribution]:
    def register(distribution: Distribution) -> Distribution:
        DISTRIBUTIONS.update(dict.fromkeys(operations, distribution))
        return distribution

    return register


def _check(holds: bool, fact: str) -> None:
    """PyTorch raises an error for such parameters when it draws."""
    if not holds:
        raise ImportFailure(None, fact, hint="use parameters that PyTorch accepts")


def _check_floats(x: Tensor) -> None:
    _check(x.is_floating_point(), f"draws real numbers as {x.dtype}")


def _float(dtype: torch.dtype | None) -> torch.dtype:
    return dtype or torch.get_default_dtype()


def _without_gradient(value: Tensor, *parameters: Tensor) -> Tensor:
    """`value`, on which `parameters` have no influence, but as in eager gradients, which are zero."""
    for parameter in parameters:
        value = torch.where(torch.zeros_like(value, dtype=torch.bool), parameter.to(value.dtype), value)
    return value


@_draws(aten.rand.default)
def _rand(stream: Stream, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return stream.uniform(size, _float(dtype))


@_draws(aten.rand_like.default)
def _rand_like(stream: Stream, x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return stream.uniform(x.shape, dtype or x.dtype)


@_draws(aten.randn.default)
def _randn(stream: Stream, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return stream.normal(size, _float(dtype))


@_draws(aten.randn_like.default)
def _randn_like(stream: Stream, x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return stream.normal(x.shape, dtype or x.dtype)


@_draws(aten.randint.default)
def _randint(stream: Stream, high: int, size: Sequence[int], *, dtype: torch.dtype = torch.int64, **_: Any) -> Tensor:
    return stream.integers(size, 0, high).to(dtype)


@_draws(aten.randint.low)
def _randint_from(
    stream: Stream, low: int, high: int, size: Sequence[int], *, dtype: torch.dtype = torch.int64, **_: Any
) -> Tensor:
    return stream.integers(size, low, high).to(dtype)


@_draws(aten.randint_like.default)
def _randint_like(stream: Stream, x: Tensor, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return stream.integers(x.shape, 0, high).to(dtype or x.dtype)


@_draws(aten.randint_like.low_dtype)
def _randint_like_from(
    stream: Stream, x: Tensor, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    return stream.integers(x.shape, low, high).to(dtype or x.dtype)


@_draws(aten.randperm.default)
def _randperm(stream: Stream, n: int, *, dtype: torch.dtype = torch.int64, **_: Any) -> Tensor:
    return stream.words([n])[0].sort(stable=True).indices.to(dtype)


@_draws(aten.uniform_.default)
def _uniform_(stream: Stream, x: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    _check(low <= high, f"draws between {low} and {high}")
    _check_floats(x)
    return x.copy_(stream.uniform(x.shape, x.dtype) * (high - low) + low)


@_draws(aten.normal_.default)
def _normal_(stream: Stream, x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    _check(std >= 0.0, f"draws with standard deviation {std}")
    _check_floats(x)
    return x.copy_(stream.normal(x.shape, _wide(x)) * std + mean)


@_draws(aten.log_normal_.default)
def _log_normal_(stream: Stream, x: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    _check(std > 0.0, f"draws with standard deviation {std}")
    _check_floats(x)
    return x.copy_((stream.normal(x.shape, _wide(x)) * std + mean).exp())


@_draws(aten.exponential_.default)
def _exponential_(stream: Stream, x: Tensor, rate: float = 1.0) -> Tensor:
    _check(rate > 0.0, f"draws at rate {rate}")
    _check_floats(x)
    return x.copy_(stream.exponential(x.shape, rate))


@_draws(aten.cauchy_.default)
def _cauchy_(stream: Stream, x: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    _check(sigma > 0.0, f"draws with scale {sigma}")
    _check_floats(x)
    return x.copy_(((stream.inside(x.shape) - 0.5) * torch.pi).tan() * sigma + median)


@_draws(aten.geometric_.default)
def _geometric_(stream: Stream, x: Tensor, p: float) -> Tensor:
    _check(0.0 < p < 1.0, f"draws with probability {p}")
    return x.copy_(stream.trials(x.shape, p))


@_draws(aten.random_.to)
def _random_to_(stream: Stream, x: Tensor, high: int) -> Tensor:
    return x.copy_(stream.integers(x.shape, 0, high))


@_draws(aten.normal.Tensor_Tensor)
def _normal(stream: Stream, mean: Tensor, std: Tensor) -> Tensor:
    _check_floats(mean)
    stream.require(std >= 0)
    shape = torch.broadcast_shapes(mean.shape, std.shape)
    value = (mean.detach() + std.detach() * stream.normal(shape, mean.dtype)).to(mean.dtype)
    return _without_gradient(value, mean, std)


@_draws(aten.normal.Tensor_float)
def _normal_about(stream: Stream, mean: Tensor, std: float = 1.0) -> Tensor:
    _check(std >= 0.0, f"draws with standard deviation {std}")
    _check_floats(mean)
    return _without_gradient(mean.detach() + std * stream.normal(mean.shape, mean.dtype), mean)


@_draws(aten.normal.float_Tensor)
def _normal_of_width(stream: Stream, mean: float, std: Tensor) -> Tensor:
    _check_floats(std)
    stream.require(std >= 0)
    return _without_gradient(mean + std.detach() * stream.normal(std.shape, std.dtype), std)


@_draws(aten.normal.float_float)
def _normal_of_size(
    stream: Stream, mean: float, std: float, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    _check(std >= 0.0, f"draws with standard deviation {std}")
    return stream.normal(size, _float(dtype)) * std + mean


@_draws(aten.bernoulli.default)
def _bernoulli(stream: Stream, p: Tensor) -> Tensor:
    return _without_gradient(_coins(stream, p.shape, p.detach()).to(p.dtype), p)


@_draws(aten.bernoulli.p)
def _bernoulli_p(stream: Stream, x: Tensor, p: float) -> Tensor:
    _check(0.0 <= p <= 1.0, f"draws with probability {p}")
    return _coins(stream, x.shape, p).to(x.dtype)


@_draws(aten.bernoulli_.Tensor)
def _bernoulli_(stream: Stream, x: Tensor, p: Tensor) -> Tensor:
    return x.copy_(_coins(stream, x.shape, p.detach()))


@_draws(aten.multinomial.default)
def _multinomial(stream: Stream, weights: Tensor, count: int, replacement: bool = False) -> Tensor:
    """The classes whose exponential, divided by their weight, comes first (Efraimidis and Spirakis, 2006)."""
    weights = weights.detach().to(torch.float32)
    stream.require((weights >= 0) & weights.isfinite() & (weights.sum(-1, keepdim=True) > 0))
    if not replacement:
        return (weights / stream.exponential(weights.shape, 1.0)).topk(count).indices
    shape = [*weights.shape[:-1], count, weights.shape[-1]]
    return (weights.unsqueeze(-2) / stream.exponential(shape, 1.0)).argmax(-1)


@_draws(aten.rrelu_with_noise.default)
def rrelu_with_noise(
    stream: Stream, x: Tensor, noise: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """Negative elements times slopes between `lower` and `upper`, which `noise` receives beside ones; in training."""
    slopes = (stream.uniform(x.shape, torch.float32) * (upper - lower) + lower).to(x.dtype)
    noise.copy_(torch.where(x <= 0, slopes, 1.0))
    return x * noise


def _coins(stream: Stream, shape: Sequence[int], p: Tensor | float) -> Tensor:
    if isinstance(p, Tensor):
        stream.require((p >= 0) & (p <= 1))
    return stream.uniform(shape, torch.float32) < p


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
