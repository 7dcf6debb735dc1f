"""The user's request for compilation, unmodified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from dmc import optim
from dmc.importer.capture.capture import Loss
from dmc.importer.capture.own_loss import OfModel, OwnLoss
from dmc.importer.forward.precision import Precision
from dmc.importer.traced import added_to_seed, signed
from dmc.verification.other_roundings import NARROW


@dataclass(frozen=True)
class Request:
    """The arguments of `dmc.compile` that define the meaning of a step. modes: whether each module is in training mode.

    phase, number: its name and place among phases. optimizer: None where it trains nothing.
    is_widened: whether everything in a narrower floating type is converted to f32. has_narrow: whether some modules
    compute in such types, whatever the step does.
    """

    model: nn.Module
    loss: Loss | OwnLoss | OfModel | None
    optimizer: Any
    example: Any
    precision: Precision
    accumulate: int
    seed: int
    modes: Mapping[nn.Module, bool]
    is_widened: bool = False
    phase: str = ""
    number: int = 0
    has_narrow: bool = False

    @staticmethod
    def of(
        model: nn.Module,
        loss: Loss | OfModel | None,
        optimizer: Any,
        example: Any,
        precision: Precision,
        accumulate: int,
        seed: int,
    ) -> Request:
        """The request, with the modules' current modes."""
        function = loss.function if isinstance(loss, OfModel) else loss
        modules = [*model.modules(), *(function.modules() if isinstance(function, nn.Module) else ())]
        modes = {module: module.training for module in modules}
        return Request(model, loss, optimizer, example, precision, accumulate, seed, modes)

    def with_examples(self, examples: Sequence[Any], counts: Sequence[int] | None = None) -> tuple[Request, ...]:
        """The same for each example, with so many micro-batches, by default one."""
        pairs = zip(examples, counts or [1] * len(examples), strict=True)
        return tuple(replace(self, example=each, accumulate=count) for each, count in pairs)

    def plan(self) -> optim.Plan:
        """The optimizer as compiled, for the parameters that require a gradient."""
        return optim.plan_for(self.model, self.optimizer)

    @property
    def draws_by(self) -> int:
        """The seed of its random numbers."""
        return signed(self.seed + added_to_seed(self.number))

    @property
    def is_mixed(self) -> bool:
        """Whether chosen operations compute in bf16."""
        return self.precision is Precision.BF16_MIXED

    @property
    def dtype(self) -> torch.dtype | None:
        """The type to which floating tensors are converted, if any."""
        if self.is_widened:
            return torch.float32
        return torch.bfloat16 if self.precision is Precision.BF16 else None

    def is_narrow(self) -> bool:
        """Whether anything is in a floating type narrower than f32."""
        if self.is_widened:
            return False
        tensors = [*self.model.parameters(), *self.model.buffers(), *pytree.tree_leaves(self.example)]
        types = {tensor.dtype for tensor in tensors if isinstance(tensor, Tensor)}
        return self.has_narrow or self.precision is not Precision.FP32 or not types.isdisjoint(NARROW)

    def widened(self) -> Request:
        """The same in f32."""
        return replace(self, precision=Precision.FP32, is_widened=True)
