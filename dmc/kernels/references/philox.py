"""The dropout masks of `dmc.kernels.jit.philox`, in PyTorch: Philox4x32-10 (Salmon et al., 2011)."""

from __future__ import annotations

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF


def keep_scale(shape: tuple[int, ...], first: int, seed: Tensor, draw: Tensor, p: float) -> Tensor:
    """float64: 1/(1-p) where an element is kept, else 0; for elements `first`, … of a tensor, in `shape`."""
    count = torch.Size(shape).numel()
    block = torch.arange(first // 4, (first + count + 3) // 4, device=seed.device)
    word = torch.stack(_words(block, seed, draw), 1).flatten()[first % 4 : first % 4 + count]
    return (word >= round(p * 2**32)).double().div_(1.0 - p).view(shape)


def _words(block: Tensor, seed: Tensor, draw: Tensor) -> tuple[Tensor, ...]:
    a, b, c, d = _low(block), _low(block >> 32), _low(draw).expand_as(block), _low(draw >> 32).expand_as(block)
    first, second = _low(seed), _low(seed >> 32)
    for _ in range(10):
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = _low(right >> 32) ^ b ^ first, _low(right), _low(left >> 32) ^ d ^ second, _low(left)
        first, second = _low(first + 0x9E3779B9), _low(second + 0xBB67AE85)
    return a, b, c, d


def _low(word: Tensor) -> Tensor:
    return word & _MASK
