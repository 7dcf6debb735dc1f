"""Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import Limits, Optimizer, Slot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """Steps in the unit of earlier steps (Zeiler, 2012; `torch.optim.Adadelta`)."""

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6

    limits: ClassVar[Limits] = {"rho": (0.0, 1.0)}

    @property
    def counts_steps(self) -> bool:
        """PyTorch counts, but no update depends on it."""
        return False

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The mean squares of gradients and of steps."""
        return Slot("square_avg", shape), Slot("acc_delta", shape)

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The gradient, scaled by the ratio of the two roots."""
        squares = slots[0] * self.rho + slope * (1.0 - self.rho) * slope
        delta = (slots[1] + self.eps).sqrt() / (squares + self.eps).sqrt() * slope
        return lr * delta, squares, slots[1] * self.rho + delta * (1.0 - self.rho) * delta
