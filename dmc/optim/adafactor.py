"""Adafactor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from dmc.optim.base import Limits, Optimizer, Slot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Adafactor(Optimizer):
    """Adam without a first moment, with a second one of rank one (Shazeer and Stern, 2018; `torch.optim.Adafactor`).

    eps: of the second moment (None: the machine epsilon of the parameter's type), and of the parameter's size.
    """

    lr: float = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0

    limits: ClassVar[Limits] = {"beta2_decay": (-math.inf, 0.0), "d": (1.0, math.inf)}

    @property
    def is_decoupled(self) -> bool:
        """Always."""
        return True

    def kind(self, shape: Sequence[int]) -> str:
        """A vector has no factors."""
        return super().kind(shape) + ("_vector" if len(shape) < 2 else "")

    def for_type(self, epsilon: float) -> Self:
        """With the type's epsilon for none."""
        return replace(self, eps=(epsilon, self.eps[1])) if self.eps[0] is None else self

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The mean squares of rows and of columns, of the last two dimensions."""
        if len(shape) < 2:
            return (Slot("variance", shape),)
        *outer, rows, columns = shape
        return Slot("row_var", (*outer, rows, 1)), Slot("col_var", (*outer, 1, columns))

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """The weight of this step's squares, t to the power of the decay, and the relative step size."""
        return (count.log() * self.beta2_decay).exp(), lr.minimum(count.rsqrt())

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The gradient divided by its size, limited, in the unit of the parameter's size."""
        weight, relative = scalars
        least, smallest = (each or 0.0 for each in self.eps)
        squares = slope * slope
        means = (squares,) if slope.dim() < 2 else (squares.mean(-1, keepdim=True), squares.mean(-2, keepdim=True))
        kept = tuple(slot + (mean - slot) * weight for slot, mean in zip(slots, means, strict=True))
        variance = kept[0]
        if slope.dim() > 1:
            rows, columns = kept
            variance = rows * columns / rows.mean(-2, keepdim=True).clamp(min=least)
        scaled = variance.clamp(min=least * least).rsqrt() * slope
        rate = relative * _size(old).clamp(min=smallest)
        return rate / (_size(scaled) / self.d).clamp(min=1.0) * scaled, *kept


def _size(x: Tensor) -> Tensor:
    """The root of the mean square."""
    return (x * x).mean().sqrt()
