"""One parameter's optimizer step. State is read and written elementwise, so that it can be updated in place.

Shared arguments: `gradient` is multiplied by the f32 scalar `clip`; `lr` is an f32 scalar; where the boolean scalar
`apply` is false, everything keeps its old value. Arithmetic is in f32, results in the dtypes of the arguments.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from dmc.importer.composites.base import composite


@composite(
    "optimizer_update_sgd(Tensor parameter, Tensor gradient, Tensor clip, Tensor lr, Tensor apply, float weight_decay)"
    " -> Tensor"
)
def sgd(parameter: Tensor, gradient: Tensor, clip: Tensor, lr: Tensor, apply: Tensor, weight_decay: float) -> Tensor:
    """Stochastic gradient descent without momentum, as `torch.optim.SGD`: the new parameter."""
    old = parameter.float()
    new = old - lr * _decayed(gradient, clip, old, weight_decay)
    return _keep(apply, new, parameter)


@composite(
    "optimizer_update_momentum(Tensor parameter, Tensor gradient, Tensor buffer, Tensor clip, Tensor lr, Tensor apply,"
    " Tensor first, float weight_decay, float momentum, float dampening, bool nesterov) -> (Tensor, Tensor)"
)
def momentum(
    parameter: Tensor,
    gradient: Tensor,
    buffer: Tensor,
    clip: Tensor,
    lr: Tensor,
    apply: Tensor,
    first: Tensor,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
) -> tuple[Tensor, Tensor]:
    """SGD with momentum, as `torch.optim.SGD`: the new parameter and momentum buffer.

    Where the boolean scalar `first` is true the buffer starts as the gradient itself.
    """
    old = parameter.float()
    decayed = _decayed(gradient, clip, old, weight_decay)
    velocity = torch.where(first, decayed, buffer.float() * momentum + decayed * (1.0 - dampening))
    direction = decayed + velocity * momentum if nesterov else velocity
    return _keep(apply, old - lr * direction, parameter), _keep(apply, velocity, buffer)


_ADAM = (
    "(Tensor parameter, Tensor gradient, Tensor exp_avg, Tensor exp_avg_sq, Tensor clip, Tensor lr, Tensor apply,"
    " Tensor correction1, Tensor correction2_sqrt, float beta1, float beta2, float eps, float weight_decay)"
    " -> (Tensor, Tensor, Tensor)"
)


def _adam(
    parameter: Tensor,
    gradient: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    clip: Tensor,
    lr: Tensor,
    apply: Tensor,
    correction1: Tensor,
    correction2_sqrt: Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The new parameter, first and second moment. `correction1` = 1-β₁ᵗ, `correction2_sqrt` = √(1-β₂ᵗ), f32 scalars.

    Adam (Kingma and Ba, 2015) adds the decay to the gradient; AdamW (Loshchilov and Hutter, 2019; `decoupled`) takes it
    from the parameter.
    """
    old = parameter.float()
    slope = _decayed(gradient, clip, old, 0.0 if decoupled else weight_decay)
    start = old * (1.0 - lr * weight_decay) if decoupled else old
    first = exp_avg.float()
    # Like `lerp`, from the nearer end: this matters for an infinite slope.
    first = first + (slope - first) * (1.0 - beta1) if beta1 > 0.5 else slope - (slope - first) * beta1
    second = exp_avg_sq.float() * beta2 + slope * slope * (1.0 - beta2)
    new = start - (lr / correction1) * (first / (second.sqrt() / correction2_sqrt + eps))
    return _keep(apply, new, parameter), _keep(apply, first, exp_avg), _keep(apply, second, exp_avg_sq)


composite(f"optimizer_update_adam{_ADAM}")(partial(_adam, decoupled=False))
composite(f"optimizer_update_adamw{_ADAM}")(partial(_adam, decoupled=True))


def _decayed(gradient: Tensor, clip: Tensor, parameter: Tensor, weight_decay: float) -> Tensor:
    scaled = gradient.float() * clip
    return scaled + parameter * weight_decay if weight_decay else scaled


def _keep(apply: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(apply, new.to(old.dtype), old)


@composite("optimizer_update_keep(Tensor old, Tensor new, Tensor apply) -> Tensor")
def keep(old: Tensor, new: Tensor, apply: Tensor) -> Tensor:
    """The new value of a buffer that the forward pass writes, such as a running mean."""
    return _keep(apply, new, old)
