"""The random numbers of a step: each place that draws has separate draws, by seed and step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dmc.dropout import share_of
from dmc.errors import ImportFailure
from dmc.importer.composites.philox import uniform_bits
from dmc.importer.forward.random_numbers.streams import Stream

MAX_SITES = 1 << 14
# Below zero SELU tends to minus this, its scale · alpha (Klambauer et al., 2017): alpha dropout sets dropped elements
# to it.
_SELU_DEPTH = 1.7580993408473766
# The largest relative change of a result's mean by rounding the probability.
_OFF = 0.01


def undrawable(place: str | None) -> ImportFailure:
    """The error for an operation that draws random numbers and has no rule."""
    return ImportFailure(
        place,
        "draws random numbers in a way that is not supported",
        hint="use rand, randn, randint, bernoulli, exponential_ or the like, or draw outside the step and pass the "
        "numbers as an input",
    )


@dataclass
class Randomness:
    """The random state of one step: seed and counter (int64 scalars), and a fresh draw for each place that needs one.
    conditions: what must hold of the parameters of distributions. is_mapped: inside of `torch.vmap`, nothing is drawn.

    The draw of site s in step c is c · MAX_SITES + s. One operation makes all draws, so that kernels of repeated layers
    read theirs from memory and share code.
    """

    seed: Tensor
    counter: Tensor
    conditions: list[Any] = field(default_factory=list[Any])
    sites: int = 0
    is_mapped: bool = False

    @cached_property
    def draws(self) -> Tensor:
        """The draws of all sites, int64[MAX_SITES]."""
        return self.counter * MAX_SITES + torch.arange(MAX_SITES, device=self.counter.device)

    def draw(self, p: float) -> Tensor:
        """A number, int64 [], unique to this place and step, to drop by with probability `p`."""
        rounded = share_of(p).dropped
        # Kept elements are scaled by 1 / (1 - p), so the mean changes where `rounded` is another share.
        if not 0 < rounded < 1 or abs(rounded - p) > _OFF * (1 - p):
            fact = f"drops with probability {p}, which rounds to {rounded:g} in steps of 1/{2 ** share_of(p).bits}"
            raise ImportFailure(None, fact, hint="use exactly 0 or 1, or a probability further from them")
        return self._site()

    def stream(self) -> Stream:
        """The random numbers of a place that is no dropout."""
        return Stream(self.seed, self._site(), self.conditions)

    def coins(self, x: Tensor, p: float) -> Tensor:
        """1 with probability `p`, else 0, in the shape and type of `x`. Dropout in eager calls the same operation, so
        both take the same bits.
        """
        if not 0.0 <= p <= 1.0:
            raise ImportFailure(None, f"draws with probability {p}", hint="use one between 0 and 1")
        draw = self.draw(1.0 - p) if 0.0 < p < 1.0 else self._site()
        return (uniform_bits(list(x.shape), self.seed, draw) >= share_of(1.0 - p).threshold).to(x.dtype)

    def _site(self) -> Tensor:
        if self.is_mapped:
            fact = "draws random numbers inside torch.vmap"
            raise ImportFailure(None, fact, hint="draw before, for the whole batch, and pass the numbers")
        if self.sites == MAX_SITES:
            raise ImportFailure(
                None, f"more than {MAX_SITES} places draw random numbers", hint="draw more numbers at once"
            )
        self.sites += 1
        return self.draws[self.sites - 1]

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """`x` with elements dropped by a fresh draw; with p = 1, as in eager, nothing is drawn."""
        return torch.ops.dmc.dropout(x, self.seed, self.draw(p) if p < 1.0 and x.numel() else self.counter, p)

    def feature_dropout(self, x: Tensor, p: float) -> Tensor:
        """`x` with whole channels (its second dimension) dropped by a fresh draw."""
        if not x.numel():
            return x
        return x * self.dropout(_per_channel(x), p)

    def alpha_dropout(self, x: Tensor, p: float, by_channel: bool) -> Tensor:
        """`x` with elements or whole channels set to SELU's limit, then rescaled to keep mean 0 and variance 1."""
        if p == 1.0:
            return x * 0
        kept = (self.dropout(_per_channel(x) if by_channel else torch.ones_like(x), p) != 0).to(x.dtype)
        scale = 1.0 / math.sqrt((_SELU_DEPTH**2 * p + 1.0) * (1.0 - p))
        return x * (kept * scale) + (kept - 1.0 + p) * (_SELU_DEPTH * scale)


def _per_channel(x: Tensor) -> Tensor:
    if x.dim() < 2:
        raise ImportFailure(None, f"drops channels of a tensor of {x.dim()} dimensions", hint="give it at least two")
    return x.new_ones([*x.shape[:2], *[1] * (x.dim() - 2)])
