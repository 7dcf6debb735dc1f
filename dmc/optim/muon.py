"""Muon."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import ANY, Limits, Optimizer, Slot, lerp

if TYPE_CHECKING:
    from torch import Tensor

_ADJUSTMENTS = (None, "original", "match_rms_adamw")
# PyTorch's own limit.
_MOST_STEPS = 99


@dataclass(frozen=True)
class Muon(Optimizer):
    """Momentum made orthogonal by Newton and Schulz's iteration in bf16 (Jordan et al., 2024; `torch.optim.Muon`).

    For matrices only: give other parameters another optimizer, by `groups`.
    """

    lr: float = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315)
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None

    limits: ClassVar[Limits] = {"ns_coefficients": ANY}
    is_counted: ClassVar[bool] = False

    @property
    def is_decoupled(self) -> bool:
        """Always."""
        return True

    def refuses(self, shape: tuple[int, ...]) -> str:
        """Anything but a matrix."""
        return "" if len(shape) == 2 else "Muon updates matrices only"

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The momentum."""
        return (Slot("momentum_buffer", shape),)

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The orthogonal matrix next to the momentum, at a rate that depends on the shape."""
        buffer = lerp(slots[0], slope, 1.0 - self.momentum)
        direction = lerp(slope, buffer, self.momentum) if self.nesterov else buffer
        return lr * self._adjustment(*old.shape) * self._orthogonal(direction), buffer

    def faults(self) -> Iterator[str]:
        """PyTorch's class has fewer options."""
        yield from super().faults()
        if self.maximize:
            yield "maximize is no option of torch.optim.Muon"
        if self.adjust_lr_fn not in _ADJUSTMENTS:
            yield f"adjust_lr_fn is {self.adjust_lr_fn!r}, not one of {', '.join(map(str, _ADJUSTMENTS))}"
        if not 0 <= self.ns_steps <= _MOST_STEPS:
            yield f"ns_steps is {self.ns_steps}, not in [0, {_MOST_STEPS}]"

    def _adjustment(self, rows: int, columns: int) -> float:
        if self.adjust_lr_fn == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1.0, rows / columns))

    def _orthogonal(self, direction: Tensor) -> Tensor:
        """Every value is rounded to bf16, every sum taken in f32, as by PyTorch."""
        a, b, c = self.ns_coefficients
        is_tall = direction.shape[0] > direction.shape[1]
        x = _rounded(direction.t() if is_tall else direction)
        x = _rounded(x / _rounded((x * x).sum().sqrt()).clamp(min=self.eps))
        for _ in range(self.ns_steps):
            gram = _rounded(x @ x.t())
            x = _rounded(a * x + _rounded(b * gram + c * (gram @ gram)) @ x)
        return x.t() if is_tall else x


def _rounded(x: Tensor) -> Tensor:
    return x.bfloat16().float()
