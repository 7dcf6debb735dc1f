"""Where PyTorch's own modules look at values to choose between equal computations, or to refuse them: the trace knows
no values, so it takes the computation that is right for all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional, modules

from dmc.errors import ImportFailure
from dmc.importer.torch_internals import BATCH_NORM, CAUSAL_MASK


@contextmanager
def undecided() -> Generator[None]:
    """In this context a mask counts as any mask, and batch norm without momentum averages by tensors."""
    forward = BATCH_NORM.forward
    with (
        mock.patch.object(modules.transformer, CAUSAL_MASK, _is_called_causal),
        mock.patch.object(BATCH_NORM, "forward", lambda module, x: _batch_norm(module, x, forward)),
    ):
        yield


def _is_called_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """`nn.Transformer` compares masks with the causal one, to compute the same in less time."""
    del mask, size
    return is_causal is True


def _batch_norm(module: Any, x: Tensor, forward: Callable[[Any, Tensor], Tensor]) -> Tensor:
    """Without momentum the running statistics are means over all batches: each counts 1 / n, a tensor."""
    if module.momentum is not None or not module.training or not module.track_running_stats:
        return forward(module, x)
    module._check_input_dim(x)
    module.num_batches_tracked.add_(1)
    # With momentum 1 these become the statistics of this batch.
    mean, variance = torch.zeros_like(module.running_mean), torch.zeros_like(module.running_var)
    result = functional.batch_norm(x, mean, variance, module.weight, module.bias, True, 1.0, module.eps)
    with torch.no_grad():
        share = 1.0 / module.num_batches_tracked
        for running, own in ((module.running_mean, mean), (module.running_var, variance)):
            running.copy_(running * (1.0 - share) + own * share)
    return result


def gaussian_nll(
    function: Any, x: Tensor, target: Tensor, variance: Any, *, eps: float = 1e-6, **kwargs: Any
) -> Tensor:
    """Where a variance is negative eager raises, and this gives NaN. One below `eps` becomes `eps` and keeps its
    gradient, since eager clamps it in a region without gradients; export loses that region inside of a function.
    """
    if not isinstance(variance, Tensor):
        return function(x, target, variance, eps=eps, **kwargs)
    variance = torch.where(variance < 0, torch.nan, variance)
    variance = torch.where(variance < eps, variance - variance.detach() + eps, variance)
    # Its check is all that this function uses it for.
    with mock.patch.object(torch, "any", return_value=False):
        return function(x, target, variance, eps=eps, **kwargs)


def covariance(
    x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """`torch.cov`, which raises for weights below zero or that sum to zero; this gives NaN there."""
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    weights = [each for each in (fweights, aweights) if each is not None]
    every = torch.ones_like(rows[0])
    for each in weights:
        every = every * torch.where(each < 0, torch.nan, each)
    total = every.sum()
    away = rows - ((every * rows).sum(1) / total).unsqueeze(1)
    lost = correction * (every * aweights).sum() / total if aweights is not None else correction
    return (away @ (every * away).mT / (total - lost).clamp(min=0.0)).squeeze()


def correlation(x: Tensor) -> Tensor:
    """`torch.corrcoef`."""
    both = covariance(x)
    if both.dim() == 0:
        return both / both
    deviation = both.diagonal().sqrt()
    return (both / deviation.unsqueeze(1) / deviation).clip(-1.0, 1.0)


def repeated(x: Tensor, repeats: Tensor, known: list[int] | None, dim: int | None, size: int | None) -> Tensor:
    """`torch.repeat_interleave` by numbers that are known, or that have `size` as their sum: the loss is NaN where they
    do not, for which eager raises.
    """
    x, dim = (x.reshape(-1), 0) if dim is None else (x, dim)
    if known is not None:
        counts = known * (x.shape[dim] if len(known) == 1 else 1)
        if len(counts) != x.shape[dim]:
            raise RuntimeError(f"repeat_interleave: {len(counts)} numbers for {x.shape[dim]} elements")
        return x.index_select(dim, torch.tensor([i for i, count in enumerate(counts) for _ in range(count)]))
    if size is None:
        hint = "say how many elements there are in all: x.repeat_interleave(repeats, dim, output_size=n)"
        raise ImportFailure(None, "repeat_interleave returns a tensor whose shape depends on data", hint)
    ends = repeats.expand(x.shape[dim]).cumsum(0)
    torch.ops.aten._assert_async.default((ends[-1:].sum() == size) & (repeats >= 0).all())
    return x.index_select(dim, torch.searchsorted(ends, torch.arange(size), right=True).clamp(max=x.shape[dim] - 1))


def narrow(function: Any, x: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """A part of fixed length whose place is a tensor: by index."""
    if not isinstance(start, Tensor):
        return function(x, dim, start, length)
    first = torch.where(start < 0, start + x.shape[dim], start)
    return x.index_select(dim, first.reshape(1).to(torch.int64) + torch.arange(length))


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """`torch.bincount` of numbers below `minlength`, [minlength]: eager's result grows with larger ones, which are
    indices out of range here. The weights have their gradient, for which eager raises.
    """
    if minlength < 1:
        hint = "say how many there are: torch.bincount(x, minlength=n), where every number is below n"
        raise ImportFailure(None, "torch.bincount returns a tensor whose shape depends on data", hint)
    if weights is None:
        counted = torch.ones_like(x, dtype=torch.int64)
    else:  # Sums of other types are of float64.
        counted = weights if weights.dtype == torch.float32 else weights.double()
    return counted.new_zeros(minlength).index_add(0, x.long(), counted)
