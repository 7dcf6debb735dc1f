"""A program of a step as it was asked for, and traced: its forward and backward pass, before any state is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from dmc import optim
from dmc.dtypes import DTYPES
from dmc.errors import ImportFailure
from dmc.importer.capture.capture import Capture, Loss
from dmc.importer.capture.own_loss import OfModel
from dmc.importer.differentiate import Gradients
from dmc.importer.forward.precision import Precision

# Neither float64, which the backend computes in 32 bits, nor int16, in which constants are refused.
MLIR_NAMES = {getattr(torch, each.torch): each.name for each in DTYPES if each.name not in ("f64", "i16")}
# An odd number of 64 bits without a pattern: seeds that lie together are far apart when multiples of it are added.
_APART = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Asked:
    """One program of a step; see `dmc.compile` for the arguments. phase, number: its name and place among phases.

    optimizer: None for a phase that trains nothing, and only changes buffers. shape: the number of its example.
    """

    model: nn.Module
    loss: Loss | OfModel | None
    optimizer: Any
    example: Any
    precision: Precision
    accumulate: int
    seed: int
    phase: str = ""
    number: int = 0
    shape: int = 0

    @property
    def place(self) -> str:
        """What errors call it."""
        example = f"example[{self.shape}]" if self.shape or not self.phase else ""
        return ", ".join(part for part in (f"phase '{self.phase}'" if self.phase else "", example) if part)

    @property
    def dtype(self) -> torch.dtype | None:
        """The type to which floating tensors are converted, if any."""
        return torch.bfloat16 if self.precision is Precision.BF16 else None


@dataclass(frozen=True)
class Traced:
    """A program with its captured forward pass, and its gradients. plan: the optimizer for its parameters.

    done: the first value of its counter; None for what the furthest of its parameters has done.
    """

    asked: Asked
    captured: Capture
    gradients: Gradients
    plan: optim.Plan
    done: int | None = None

    @property
    def dtype(self) -> torch.dtype | None:
        """The type to which floating tensors are converted, if any."""
        return self.asked.dtype

    def converted(self, name: str) -> Tensor:
        """A tensor of the state as the program has it."""
        tensor, dtype = self.captured.state[name].detach(), self.dtype
        return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor

    def holder(self, parameter: str) -> int:
        """What tells the optimizer of a parameter apart from others."""
        return optim.holder(self.asked.optimizer, self.captured.memory[parameter])

    def renamed(self, names: Mapping[str, str]) -> Traced:
        """With other names for some tensors of the state that the program only reads."""
        old = self.captured
        captured = replace(
            old,
            inputs=tuple(names.get(name, name) for name in old.inputs),
            state=_renamed(old.state, names),
            kinds=_renamed(old.kinds, names),
            aliases=_renamed(old.aliases, names),
            memory=_renamed(old.memory, names),
        )
        return replace(self, captured=captured)


def added_to_seed(phase: int) -> int:
    """What the phase of this number adds to the seed, so that each draws numbers of its own: 64 bits, signed."""
    return signed(phase * _APART)


def signed(number: int) -> int:
    """The last 64 bits of a number, signed."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def dtype_name(name: str, dtype: torch.dtype) -> str:
    """MLIR's name of an element type. Raises ImportFailure about `name` for one that is not supported."""
    if dtype not in MLIR_NAMES:
        raise ImportFailure(
            name, f"has the unsupported type {dtype}", hint=f"use one of {', '.join(map(str, MLIR_NAMES))}"
        )
    return MLIR_NAMES[dtype]


def _renamed(named: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in named.items()}
