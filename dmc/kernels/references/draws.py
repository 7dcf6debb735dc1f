"""Random operands of a problem, for tests and for tuning."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dmc.kernels.problem import TensorType

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "i1": torch.bool,
}


def empty(type: TensorType, device: str | torch.device) -> Tensor:
    """Memory for a tensor, with its strides."""
    return torch.empty_strided(type.shape, type.steps(), dtype=DTYPES[type.dtype], device=device)


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
