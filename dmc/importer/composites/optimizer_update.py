"""One parameter's optimizer step. State is read and written elementwise, so that it can be updated in place.

Where the boolean scalar `apply` is false nothing changes: gradients count as zero, and the caller passes scalars (f32
tensors of shape []) that make every formula the identity. So the guard costs no pass over the state of its own.
`clip` multiplies the gradient. Arithmetic is in f32, results in the dtypes of the arguments.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dmc.importer.composite import composite


@composite(
    "optimizer_update_sgd(Tensor parameter, Tensor gradient, Tensor apply, Tensor clip, Tensor lr, float weight_decay)"
    " -> Tensor"
)
def sgd(parameter: Tensor, gradient: Tensor, apply: Tensor, clip: Tensor, lr: Tensor, weight_decay: float) -> Tensor:
    """Stochastic gradient descent without momentum, as `torch.optim.SGD`: the new parameter. `lr` is 0 to keep it."""
    old = parameter.float()
    return (old - lr * _decayed(gradient, apply, clip, old, weight_decay)).to(parameter.dtype)


@composite(
    "optimizer_update_momentum(Tensor parameter, Tensor gradient, Tensor buffer, Tensor apply, Tensor clip, Tensor lr,"
    " Tensor keep, Tensor gain, float weight_decay, float momentum, bool nesterov) -> (Tensor, Tensor)"
)
def momentum(
    parameter: Tensor,
    gradient: Tensor,
    buffer: Tensor,
    apply: Tensor,
    clip: Tensor,
    lr: Tensor,
    keep: Tensor,
    gain: Tensor,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
) -> tuple[Tensor, Tensor]:
    """SGD with momentum, as `torch.optim.SGD`: the new parameter and momentum buffer.

    The buffer becomes keep · buffer + gain · gradient: the momentum and one minus the dampening; 1 and 0 to keep it.
    """
    old = parameter.float()
    decayed = _decayed(gradient, apply, clip, old, weight_decay)
    velocity = buffer.float() * keep + decayed * gain
    direction = decayed + velocity * momentum if nesterov else velocity
    return (old - lr * direction).to(parameter.dtype), velocity.to(buffer.dtype)


_ADAM = (
    "(Tensor parameter, Tensor gradient, Tensor exp_avg, Tensor exp_avg_sq, Tensor apply, Tensor clip, Tensor lr,"
    " Tensor gain1, Tensor keep2, Tensor gain2, Tensor correction1, Tensor correction2_sqrt, float eps,"
    " float weight_decay) -> (Tensor, Tensor, Tensor)"
)


@composite(f"optimizer_update_adam{_ADAM}")
def adam(
    parameter: Tensor,
    gradient: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    apply: Tensor,
    clip: Tensor,
    lr: Tensor,
    gain1: Tensor,
    keep2: Tensor,
    gain2: Tensor,
    correction1: Tensor,
    correction2_sqrt: Tensor,
    eps: float,
    weight_decay: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Adam (Kingma and Ba, 2015) with decay added to the gradient: new parameter, first and second moment.

    gain1 = 1-β₁, keep2 = β₂, gain2 = 1-β₂ (0, 1, 0 to keep the moments); correction1 = 1-β₁ᵗ, correction2_sqrt =
    √(1-β₂ᵗ).
    """
    old = parameter.float()
    decayed = _decayed(gradient, apply, clip, old, weight_decay)
    first, second = _moments(decayed, exp_avg, exp_avg_sq, gain1, keep2, gain2)
    new = old - (lr / correction1) * (first / (second.sqrt() / correction2_sqrt + eps))
    return new.to(parameter.dtype), first.to(exp_avg.dtype), second.to(exp_avg_sq.dtype)


@composite(f"optimizer_update_adamw{_ADAM}")
def adamw(
    parameter: Tensor,
    gradient: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    apply: Tensor,
    clip: Tensor,
    lr: Tensor,
    gain1: Tensor,
    keep2: Tensor,
    gain2: Tensor,
    correction1: Tensor,
    correction2_sqrt: Tensor,
    eps: float,
    weight_decay: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """AdamW (Loshchilov and Hutter, 2019), decay apart from the gradient; scalars and results as for `adam`."""
    old = parameter.float()
    scaled = _decayed(gradient, apply, clip, old, 0.0)
    first, second = _moments(scaled, exp_avg, exp_avg_sq, gain1, keep2, gain2)
    new = old * (1.0 - lr * weight_decay) - (lr / correction1) * (first / (second.sqrt() / correction2_sqrt + eps))
    return new.to(parameter.dtype), first.to(exp_avg.dtype), second.to(exp_avg_sq.dtype)


@composite("optimizer_update_keep(Tensor old, Tensor new, Tensor apply) -> Tensor")
def keep(old: Tensor, new: Tensor, apply: Tensor) -> Tensor:
    """The new value of a buffer that the forward pass writes, such as a running mean."""
    return torch.where(apply, new.to(old.dtype), old)


def _decayed(gradient: Tensor, apply: Tensor, clip: Tensor, parameter: Tensor, weight_decay: float) -> Tensor:
    scaled = torch.where(apply, gradient.float(), 0.0) * clip
    return scaled + parameter * weight_decay if weight_decay else scaled


def _moments(
    gradient: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, gain1: Tensor, keep2: Tensor, gain2: Tensor
) -> tuple[Tensor, Tensor]:
    first = exp_avg.float()
    first = first + (gradient - first) * gain1
    second = exp_avg_sq.float() * keep2 + gradient * gradient * gain2
    return first, second
