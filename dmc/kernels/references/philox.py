"""The dropout masks of `dmc.kernels.jit.philox`, in PyTorch: Philox4x32 (Salmon et al., 2011)."""

from __future__ import annotations

import torch
from torch import Tensor

from dmc.kernels.dropout import Tile, dropout_of
from dmc.kernels.problem import Problem

_MASK = 0xFFFFFFFF
_ROUNDS = 7


def keep_scale(problem: Problem, shape: tuple[int, ...], first: int, seed: Tensor, draw: Tensor) -> Tensor:
    """float64: 1/(1-p) where an element is kept, else 0; for rows `first`, … of a tensor, in `shape`."""
    rows = torch.Size(shape[:-1]).numel()
    dropout = dropout_of(problem, first + rows, shape[-1], Tile(1, shape[-1], 1))
    assert dropout is not None, "something is dropped"
    block = torch.arange(first * dropout.blocks, (first + rows) * dropout.blocks, device=seed.device).view(-1, 4)
    # [groups, word, block, number], of whose numbers each two are neighbours.
    word = torch.stack(_words(block, seed, draw), 1)
    begins = torch.arange(0, 32, dropout.bits, device=seed.device)
    numbers = (word[..., None] >> begins) & ((1 << dropout.bits) - 1)
    bits = numbers.unflatten(-1, (dropout.pairs, 2)).transpose(2, 3).reshape(rows, -1)[:, : shape[-1]]
    return (bits >= dropout.threshold).double().mul_(dropout.scale).reshape(shape)


def _words(block: Tensor, seed: Tensor, draw: Tensor) -> tuple[Tensor, ...]:
    a, b, c, d = _low(block), _low(block >> 32), _low(draw).expand_as(block), _low(draw >> 32).expand_as(block)
    first, second = _low(seed), _low(seed >> 32)
    for _ in range(_ROUNDS):
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = _low(right >> 32) ^ b ^ first, _low(right), _low(left >> 32) ^ d ^ second, _low(left)
        first, second = _low(first + 0x9E3779B9), _low(second + 0xBB67AE85)
    return a, b, c, d


def _low(word: Tensor) -> Tensor:
    return word & _MASK
