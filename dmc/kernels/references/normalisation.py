"""Layer and RMS normalisation with their gradients, on matrices; see `dmc.kernels.normalisation` for their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import Draws
from dmc.kernels.references.philox import keep_scale

Reference = Callable[[Problem, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _forward(problem: Problem, operands: tuple[Tensor, ...], centred: bool, added: bool) -> tuple[Tensor, ...]:
    x, *rest = operands
    value = x.double()
    if added:
        residual, weight, *bias, seed, draw = rest
        value = residual.double() + _dropped(value, problem, seed, draw)
    else:
        weight, *bias = rest
    dims = _dims(problem, x)
    mean, rstd = _statistics(value, dims, problem.number("eps"), centred)
    y = (value - mean) * rstd * weight.double()
    y = y + bias[0].double() if centred else y
    return (*((value,) if added else ()), y, *((mean,) if centred else ()), rstd)


def _statistics(value: Tensor, dims: list[int], eps: float, centred: bool) -> tuple[Tensor, Tensor]:
    mean = value.mean(dims, keepdim=True)
    mean = mean if centred else torch.zeros_like(mean)
    return mean, ((value - mean).square().mean(dims, keepdim=True) + eps).rsqrt()


def _backward(problem: Problem, operands: tuple[Tensor, ...], centred: bool, added: bool) -> tuple[Tensor, ...]:
    dy, *rest = operands
    dtotal = rest.pop(0).double() if added else 0.0
    x, weight = rest.pop(0).double(), rest.pop(0).double()
    mean = rest.pop(0).double() if centred else 0.0
    rstd = rest.pop(0).double()
    dims = _dims(problem, dy)
    rows = list(range(dims[0]))
    normal = (x - mean) * rstd
    scaled = dy.double() * weight
    change = scaled - normal * (scaled * normal).mean(dims, keepdim=True)
    if centred:
        change = change - scaled.mean(dims, keepdim=True)
    dresidual = change * rstd + dtotal
    dx = _dropped(dresidual, problem, *rest) if added else dresidual
    dweight, dbias = (dy.double() * normal).sum(rows), dy.double().sum(rows)
    return (dx, *((dresidual,) if added else ()), dweight, *((dbias,) if centred else ()))


def _dropped(value: Tensor, problem: Problem, seed: Tensor, draw: Tensor) -> Tensor:
    return value * keep_scale(problem, tuple(value.shape), 0, seed, draw) if problem.number("p") else value


def _dims(problem: Problem, x: Tensor) -> list[int]:
    return list(range(x.dim() - int(problem.number("axes", 1)), x.dim()))


def sample(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random operands of the forward pass; with a residual, seed and draw come last."""
    added = problem.kind.startswith("add_")
    types = problem.operands[:-2] if added else problem.operands
    tensors = tuple(draws.normal(type, mean=0.5) for type in types)
    return (*tensors, *(draws.index(type, 0, 2**62) for type in problem.operands[len(types) :]))


def sample_backward(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random operands of the backward pass, with the statistics of the normalised values."""
    added, centred = problem.kind.startswith("add_"), "layer_norm" in problem.kind
    types = list(problem.operands)
    slopes = [draws.normal(types.pop(0)) for _ in range(2 if added else 1)]
    x, weight = draws.normal(types.pop(0), mean=0.5), draws.normal(types.pop(0), mean=0.5)
    statistics = _statistics(x.double(), _dims(problem, x), 1e-5, centred)
    saved = [draws.filled(types.pop(0), value) for value in statistics[0 if centred else 1 :]]
    return (*slopes, x, weight, *saved, *(draws.index(type, 0, 2**62) for type in types))


_KINDS = ("layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm")
_SETTINGS = {kind: {"centred": "layer_norm" in kind, "added": kind.startswith("add_")} for kind in _KINDS}
FORWARD: Mapping[str, Reference] = {kind: partial(_forward, **_SETTINGS[kind]) for kind in _KINDS}
BACKWARD: Mapping[str, Reference] = {kind: partial(_backward, **_SETTINGS[kind]) for kind in _KINDS}
