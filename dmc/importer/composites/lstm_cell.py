"""The elementwise part of a long short-term memory cell (Hochreiter and Schmidhuber, 1997; gate order of PyTorch)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable


@composite("lstm_cell(Tensor gates, Tensor c) -> (Tensor h, Tensor c_next)")
def lstm_cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """`h` and the new cell state [B, H] from `c` [B, H] and the gates before activation [B, 4H]."""
    i, f, g, o = gates.chunk(4, 1)
    c_next = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c_next), c_next


@composite(
    "lstm_cell_backward(Tensor dh, Tensor dc_next, Tensor gates, Tensor c, Tensor c_next) -> (Tensor dgates, Tensor dc)"
)
def lstm_cell_backward(dh: Tensor, dc_next: Tensor, gates: Tensor, c: Tensor, c_next: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for `gates` [B, 4H] and `c` [B, H]; the activations are recomputed from the gates."""
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    t = torch.tanh(c_next)
    dc = dc_next + dh * o * (1.0 - t * t)
    di = dc * g * i * (1.0 - i)
    df = dc * c * f * (1.0 - f)
    dg = dc * i * (1.0 - g * g)
    do = dh * t * o * (1.0 - o)
    return torch.cat([di, df, dg, do], 1), dc * f


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx: Any, dh: Tensor, dc_next: Tensor) -> tuple[Tensor, Tensor]:
    return torch.ops.dmc.lstm_cell_backward(dh, dc_next, *ctx.saved_tensors)


differentiable("lstm_cell", _setup, _backward)
