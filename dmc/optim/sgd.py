"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import ANY, Limits, Optimizer, Slot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent with optional momentum (`torch.optim.SGD`)."""

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    limits: ClassVar[Limits] = {"dampening": ANY}
    is_counted: ClassVar[bool] = False

    @property
    def counts_steps(self) -> bool:
        """Dampening skips the first step."""
        return self.momentum != 0.0 and self.dampening != 0.0

    def kind(self, shape: Sequence[int]) -> str:
        """With momentum it is another rule."""
        return super().kind(shape).replace("sgd", "momentum" if self.momentum else "sgd")

    def numbers(self) -> tuple[str, ...]:
        """Without momentum there is no other number."""
        return super().numbers() if self.momentum else ("weight_decay",)

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The velocity, if any."""
        return (Slot("momentum_buffer", shape),) if self.momentum else ()

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """Whether this is the first step."""
        return (count == 1.0,) if self.momentum else ()

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """In the first step the velocity starts as the gradient itself."""
        if not self.momentum:
            return (lr * slope,)
        (first,), (before,) = scalars, slots
        velocity = slope.where(first, before * self.momentum + slope * (1.0 - self.dampening))
        return lr * (slope + velocity * self.momentum if self.nesterov else velocity), velocity

    def faults(self) -> Iterator[str]:
        """Nesterov's momentum is a momentum."""
        yield from super().faults()
        if self.nesterov and (self.momentum <= 0.0 or self.dampening != 0.0):
            yield "Nesterov momentum requires momentum > 0 and dampening = 0"
