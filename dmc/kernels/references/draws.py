"""Random operands of a problem, for tests and for tuning."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dmc.dtypes import dtype_of
from dmc.kernels.problem import TensorType


def empty(type: TensorType, device: str | torch.device) -> Tensor:
    """Memory for a tensor, with its strides."""
    return torch.empty_strided(
        type.shape, type.steps(), dtype=getattr(torch, dtype_of(type.dtype).torch), device=device
    )


@dataclass(frozen=True)
class Draws:
    """A source of random tensors on a device; equal seeds give equal tensors on equal devices."""

    generator: torch.Generator

    @staticmethod
    def of(seed: int, device: str = "cpu") -> Draws:
        """A source with its own state."""
        return Draws(torch.Generator(device).manual_seed(seed))

    def normal(self, type: TensorType, scale: float = 1.0, mean: float = 0.0) -> Tensor:
        """Normally distributed numbers."""
        drawn = torch.randn(type.shape, generator=self.generator, device=self.generator.device)
        return self.filled(type, drawn * scale + mean)

    def index(self, type: TensorType, low: int, high: int) -> Tensor:
        """Integers from low to high - 1."""
        drawn = torch.randint(low, high, type.shape, generator=self.generator, device=self.generator.device)
        return self.filled(type, drawn)

    def filled(self, type: TensorType, value: Tensor | float) -> Tensor:
        """`value` in the layout of the type."""
        target = empty(type, self.generator.device)
        return target.copy_(value) if isinstance(value, Tensor) else target.fill_(value)
