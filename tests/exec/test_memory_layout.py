"""Views, `contiguous()` and writes through views mean what they mean where eager's results lie in memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.importer.forward.memory_layout import as_in_eager

HEADS, WIDTH = 2, 8


class JoinedHeads(nn.Module):
    """Attention as nanoGPT writes it; without a gradient, it and a scan are written through views."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """f32[B, T, WIDTH] → the same."""
        _, joined = self._heads(x)
        with torch.no_grad():
            heads, other = self._heads(x)
            # PyTorch's kernel leaves the heads where `contiguous()` copies nothing: this changes `heads`, too.
            other[:, :1] *= 2.0
            # So does a scan, which decomposes along another dimension, where `reshape` copies nothing.
            least = x.cummin(1).values
            least.reshape(-1)[:WIDTH] *= 2.0
        return joined + other + heads.mean((1, 3)).unsqueeze(-1) + least

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for part in self.qkv(x).split(width, dim=2)
        )
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return heads, heads.transpose(1, 2).contiguous().view(batch, length, width)


def test_heads_are_joined_by_a_view() -> None:
    x = torch.randn(2, 4, WIDTH, generator=torch.Generator().manual_seed(0))
    # Eager's first step is what the compiled one is compared with.
    dmc.compile(
        JoinedHeads(), loss=functional.mse_loss, optimizer=dmc.optim.AdamW(lr=0.1), example=(x, x), verify=True
    ).close()


def test_results_are_laid_out_as_recorded() -> None:
    plain = torch.arange(24.0).view(2, 3, 4)
    turned = torch.empty(3, 4, 2).permute(2, 0, 1)
    (laid,) = as_in_eager((plain,), (turned,))
    assert laid.stride() == turned.stride()
    torch.testing.assert_close(laid, plain, rtol=0, atol=0)
    gaps, overlapping, flat = torch.empty(2, 3, 8)[..., ::2], torch.empty(1, 3, 4).expand(2, 3, 4), torch.empty(24)
    for recorded in (gaps, overlapping, flat, None):
        assert as_in_eager(plain, recorded) is plain
