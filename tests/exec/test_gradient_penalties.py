"""Penalties on a gradient: composites, and what is made of them, are differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from tests.interpreted import assert_trains_as_eager
from tests.two_layers import WIDTH, mse

Body = Callable[[], nn.Module]


class Penalised(nn.Module):
    """The mean of what `body` makes of x, and the squares of its gradient."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """f32[*] → f32[]."""
        x = x.clone().requires_grad_()
        y = self.body(x)
        (slope,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return y.mean() + slope.square().mean()


class Attention(nn.Module):
    """Of one head, with one tensor as queries and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.v = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        """f32[B, T, WIDTH] → f32[B, T, 4]."""
        q = self.q(x)
        return functional.scaled_dot_product_attention(q, q, self.v(x), is_causal=True)


class Recurrent(nn.Module):
    """The outputs of a recurrent network."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.network = kind(WIDTH, 5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """f32[B, T, WIDTH] → f32[B, T, 5]."""
        return self.network(x)[0]


class Entropy(nn.Module):
    """Cross entropy against fixed classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        """f32[N, WIDTH] → f32[]."""
        targets = torch.arange(len(x)) % 5
        return functional.cross_entropy(self.layer(x), targets, label_smoothing=0.1, ignore_index=2)


def _between(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, nn.Linear(WIDTH, 3))


BODIES: dict[str, tuple[Body, tuple[int, ...]]] = {
    "layer norm": (lambda: _between(nn.LayerNorm(WIDTH)), (4, WIDTH)),
    "rms norm": (lambda: _between(nn.RMSNorm(WIDTH)), (4, WIDTH)),
    "gelu": (lambda: _between(nn.GELU()), (4, WIDTH)),
    "tanh gelu": (lambda: _between(nn.GELU("tanh")), (4, WIDTH)),
    "attention": (Attention, (2, 4, WIDTH)),
    "cross entropy": (Entropy, (6, WIDTH)),
    "lstm": (lambda: Recurrent(nn.LSTM), (2, 3, WIDTH)),
    "gru": (lambda: Recurrent(nn.GRU), (2, 3, WIDTH)),
    "pooling": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.SiLU(), nn.MaxPool2d(2), nn.Conv2d(3, 1, 2)),
        (2, 2, 8, 8),
    ),
    "transposed convolution": (
        lambda: nn.Sequential(nn.ConvTranspose2d(2, 4, 3, 2), nn.GroupNorm(2, 4), nn.Softplus(), nn.AvgPool2d(3)),
        (2, 2, 4, 4),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_penalty_on_the_gradient(context: Any, name: str) -> None:
    torch.manual_seed(0)
    body, shape = BODIES[name]
    given = [(torch.randn(shape), torch.randn([])) for _ in range(2)]
    assert_trains_as_eager(context, Penalised(body()), mse, given)


@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed"])
def test_compiled(precision: str) -> None:
    """Verification compares the first step with eager's."""
    torch.manual_seed(0)
    model = Penalised(_between(nn.LayerNorm(WIDTH), nn.GELU()))
    example = torch.randn(4, WIDTH), torch.randn([])
    step = dmc.compile(
        model, loss=mse, optimizer=dmc.optim.SGD(lr=0.1), example=example, precision=precision, verify=True
    )
    first = float(step(*example))
    assert float(step(*example)) < first
