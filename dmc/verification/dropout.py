"""Eager's dropout with the random bits of a compiled step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dmc.errors import VerificationError
from dmc.importer.composites.dropout import threshold
from dmc.importer.forward.randomness import MAX_SITES
from dmc.verification.philox import uniform_bits

aten = torch.ops.aten


class Draws(TorchDispatchMode):
    """Inside, every draw of dropout takes the bits that a compiled step draws at the same site.

    Whatever calls dropout, in Python or inside of an operation, ends in `bernoulli_`: it is what is replaced. Sites are
    counted as they are met, which is how `dmc.importer.forward.randomness.Randomness` counts them.
    """

    def __init__(self, seed: int, counter: int) -> None:
        super().__init__()
        self._seed, self._counter, self._sites = seed, counter, 0
        self._closed = False

    def close(self) -> None:
        """From here on nothing may be drawn: in the backward pass, what draws computes the forward pass again."""
        self._closed = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten.bernoulli_.float:
            # One half is its default, and left out.
            noise, keep = args[0], args[1] if len(args) > 1 else 0.5
            return noise.copy_(self._kept(noise, 1.0 - keep))
        if func is aten.native_dropout.default and args[2] is not False and args[1] > 0.0:
            x, p = args[:2]
            mask = self._kept(x, p)
            return x * mask / (1.0 - p), mask
        return func(*args, **(kwargs or {}))

    def _kept(self, like: Tensor, p: float) -> Tensor:
        if self._closed:
            fact = "draws random numbers in its backward pass, which eager cannot be given the bits for"
            raise VerificationError("the model", fact, hint="compare it without checkpointing")
        draw = self._counter * MAX_SITES + self._sites
        self._sites += 1
        bits = uniform_bits(like.numel(), self._seed, draw)
        return torch.from_numpy(bits >= threshold(p)).view(like.shape)
