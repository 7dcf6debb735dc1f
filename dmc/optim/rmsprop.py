"""RMSprop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmc.optim.base import Optimizer, Slot, lerp

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """Steps divided by the root of the mean square (`torch.optim.RMSprop`); `centered` divides by the deviation."""

    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    @property
    def counts_steps(self) -> bool:
        """PyTorch counts, but no update depends on it."""
        return False

    def kind(self, shape: Sequence[int]) -> str:
        """With momentum it is another rule."""
        return super().kind(shape) + ("_momentum" if self.momentum else "")

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The mean square, with momentum the velocity, and if centered the mean gradient."""
        optional = {"momentum_buffer": self.momentum > 0.0, "grad_avg": self.centered}
        return tuple(Slot(name, shape) for name in ("square_avg", *(name for name, has in optional.items() if has)))

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The gradient divided by the root, or a velocity of such steps."""
        squares = slots[0] * self.alpha + slope * (1.0 - self.alpha) * slope
        mean = (lerp(slots[-1], slope, 1.0 - self.alpha),) if self.centered else ()
        spread = (squares - mean[0] * mean[0]).sqrt() if mean else squares.sqrt()
        step = slope / (spread + self.eps)
        if not self.momentum:
            return lr * step, squares, *mean
        velocity = slots[1] * self.momentum + step
        return lr * velocity, squares, velocity, *mean
