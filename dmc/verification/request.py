"""The user's request for compilation, unmodified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dmc import optim
from dmc.importer.capture.capture import Loss
from dmc.importer.forward.precision import Precision


@dataclass(frozen=True)
class Request:
    """The arguments of `dmc.compile` that define the meaning of a step. modes: whether each module is in training
    mode."""

    model: nn.Module
    loss: Loss | None
    optimizer: Any
    example: Any
    precision: Precision
    accumulate: int
    seed: int
    modes: Mapping[nn.Module, bool]

    @staticmethod
    def of(
        model: nn.Module,
        loss: Loss | None,
        optimizer: Any,
        example: Any,
        precision: Precision,
        accumulate: int,
        seed: int,
    ) -> Request:
        """The request, with the modules' current modes."""
        modules = [*model.modules(), *(loss.modules() if isinstance(loss, nn.Module) else ())]
        modes = {module: module.training for module in modules}
        return Request(model, loss, optimizer, example, precision, accumulate, seed, modes)

    def plan(self) -> optim.Plan:
        """The optimizer as compiled, for the parameters that require a gradient."""
        return optim.plan(self.optimizer, {name: p for name, p in self.model.named_parameters() if p.requires_grad})

    @property
    def is_mixed(self) -> bool:
        """Whether chosen operations compute in bf16."""
        return self.precision is Precision.BF16_MIXED

    @property
    def dtype(self) -> torch.dtype | None:
        """The type to which floating tensors are converted, if any."""
        return torch.bfloat16 if self.precision is Precision.BF16 else None
