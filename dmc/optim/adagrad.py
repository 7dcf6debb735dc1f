"""Adagrad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import Optimizer, Slot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Steps divided by the root of all squares so far (Duchi et al., 2011; `torch.optim.Adagrad`)."""

    lr: float = 1e-2
    lr_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    begins_with_state: ClassVar[bool] = True

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The sum of the squares."""
        return (Slot("sum", shape, self.initial_accumulator_value),)

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """The learning rate of this step."""
        return (lr / (1.0 + (count - 1.0) * self.lr_decay),)

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The gradient divided by the root of the sum."""
        (rate,), squares = scalars, slots[0] + slope * slope
        return rate * (slope / (squares.sqrt() + self.eps)), squares
