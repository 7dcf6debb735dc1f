"""Random numbers of many kinds as functions of a place's seed and draw: nothing is stored, and they are the same bits
however a tensor is split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.composites.philox import Words, words_of_elements

# The largest number of values that 32 bits choose from.
_VALUES = 1 << 32


@dataclass(frozen=True)
class Stream:
    """The numbers of one place in one step: each element of a tensor has 128 bits of its own. seed, draw: int64 [].
    conditions: what must hold of the parameters, which the step checks; a place adds to them.
    """

    seed: Tensor
    draw: Tensor
    conditions: list[Any] = field(default_factory=list[Any])

    def require(self, condition: Tensor) -> None:
        """Where an element is false, PyTorch raises an error, and the loss of the step is NaN."""
        self.conditions.append(condition.all())

    def words(self, shape: Sequence[int]) -> Words:
        """Four words in [0, 2³²) for each element, int64."""
        return words_of_elements(list(shape), self.seed, self.draw)

    def uniform(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """In [0, 1), of as many bits as the type has digits, as PyTorch's, and at most f32's."""
        digits = min(_digits(dtype), _digits(torch.float32))
        return ((self.words(shape)[0] >> (32 - digits)).float() * 2.0**-digits).to(dtype)

    def inside(self, shape: Sequence[int]) -> Tensor:
        """In (0, 1), f32, of 23 bits: none is 0 or 1 even where rounded."""
        return ((self.words(shape)[0] >> 9).float() + 0.5) * 2.0**-23

    def normal(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Of mean 0 and variance 1 (Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958).

        In f32, up to 6.8; narrow types round.
        """
        radius, angle, *_ = self.words(shape)
        length = (-2.0 * ((radius.float() + 0.5) * 2.0**-32).log()).sqrt()
        return (length * ((angle >> 8).float() * (2.0 * math.pi * 2.0**-24)).cos()).to(dtype)

    def exponential(self, shape: Sequence[int], rate: float) -> Tensor:
        """Of mean 1 / rate, above 0, f32."""
        return self.inside(shape).log() * (-1.0 / rate)

    def trials(self, shape: Sequence[int], p: float) -> Tensor:
        """Up to the first that succeeds with probability `p`, that one included, f32."""
        return (self.inside(shape).log() / math.log1p(-p)).ceil()

    def integers(self, shape: Sequence[int], low: int, high: int) -> Tensor:
        """In [low, high), int64: as in PyTorch the remainder of a word, so values differ in probability by 2⁻³²."""
        if high - low > _VALUES:
            fact = f"draws from {high - low:,} integers; a step draws from at most {_VALUES:,}"
            raise ImportFailure(None, fact, hint="use a smaller range")
        return self.words(shape)[0] % (high - low) + low


def _digits(dtype: torch.dtype) -> int:
    """The digits of a type's significand, in bits."""
    return 1 - round(math.log2(torch.finfo(dtype).eps))
