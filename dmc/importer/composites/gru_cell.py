"""The elementwise part of a gated recurrent unit (Cho et al., 2014; gate order and reset of PyTorch)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable


@composite("gru_cell(Tensor x_gates, Tensor h_gates, Tensor h) -> Tensor")
def gru_cell(x_gates: Tensor, h_gates: Tensor, h: Tensor) -> Tensor:
    """The new state [B, H] from the input's and the state's gates [B, 3H] (reset, update, new) and the state [B, H]."""
    _, z, n, _ = _activations(x_gates, h_gates)
    return n + z * (h - n)


@composite(
    "gru_cell_backward(Tensor dh_next, Tensor x_gates, Tensor h_gates, Tensor h)"
    " -> (Tensor dx_gates, Tensor dh_gates, Tensor dh)"
)
def gru_cell_backward(dh_next: Tensor, x_gates: Tensor, h_gates: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for both gates [B, 3H] and the state [B, H]; the activations are recomputed from the gates."""
    r, z, n, h_new = _activations(x_gates, h_gates)
    dz = dh_next * (h - n) * z * (1.0 - z)
    dn = dh_next * (1.0 - z) * (1.0 - n * n)
    dr = dn * h_new * r * (1.0 - r)
    return torch.cat([dr, dz, dn], 1), torch.cat([dr, dz, dn * r], 1), dh_next * z


def _activations(x_gates: Tensor, h_gates: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x_reset, x_update, x_new = x_gates.chunk(3, 1)
    h_reset, h_update, h_new = h_gates.chunk(3, 1)
    r = torch.sigmoid(x_reset + h_reset)
    z = torch.sigmoid(x_update + h_update)
    return r, z, torch.tanh(x_new + r * h_new), h_new


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, dh_next: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.dmc.gru_cell_backward(dh_next, *ctx.saved_tensors)


differentiable("gru_cell", _setup, _backward)
