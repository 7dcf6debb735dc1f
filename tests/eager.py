"""The reference: the same training step in PyTorch eager, as a user would write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn

from tests.models.case import Batch, Loss


@dataclass(frozen=True)
class Together:
    """Several optimizers as one, for the trainer."""

    each: Sequence[torch.optim.Optimizer]

    def zero_grad(self) -> None:
        """As that of an optimizer."""
        for one in self.each:
            one.zero_grad()

    def step(self) -> None:
        """As that of an optimizer."""
        for one in self.each:
            one.step()


@dataclass
class EagerTrainer:
    """Trains `model` in place. `clip_grad_norm` limits the global norm of the gradients; `accumulate` splits each
    batch along dimension 0 and averages the gradients; `precision` is "fp32" or "bf16-mixed" (torch.autocast). Batches
    are where the model is.
    """

    model: nn.Module
    loss: Loss | None
    optimizer: torch.optim.Optimizer | Together
    clip_grad_norm: float | None = None
    accumulate: int = 1
    precision: str = "fp32"

    def step(self, batch: Batch, lr: float | None = None) -> float:
        """One training step at learning rate `lr` (by default the optimizer's own); gives the mean loss."""
        if lr is not None:
            assert isinstance(self.optimizer, torch.optim.Optimizer), "several have a rate each"
            for group in self.optimizer.param_groups:
                group["lr"] = lr
        self.optimizer.zero_grad()
        total = 0.0
        for micro in split(batch, self.accumulate):
            with self._kernels():
                with self._autocast():
                    value = objective(self.model, self.loss, micro)
                (value / self.accumulate).backward()
            total += value.item() / self.accumulate
        if self.clip_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_grad_norm)
        self.optimizer.step()
        return total

    def _autocast(self) -> AbstractContextManager[object]:
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(next(self.model.parameters()).device.type, torch.bfloat16)

    def _kernels(self) -> AbstractContextManager[object]:
        """oneDNN refuses an LSTM in bfloat16 on a processor without AVX-512; PyTorch's own kernels run anywhere."""
        if self.precision == "fp32" or torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return nullcontext()
        return torch.backends.mkldnn.flags(enabled=False)


def objective(model: nn.Module, loss: Loss | None, batch: Batch) -> torch.Tensor:
    """The scalar loss of `batch`: `loss(model(*inputs), targets)`, or the model's own loss from keyword inputs."""
    if isinstance(batch, Mapping):
        return model(**batch).loss
    *inputs, targets = batch
    if loss is None:
        raise ValueError("a batch of positional inputs needs a loss")
    return loss(model(*inputs), targets)


def split(batch: Batch, parts: int) -> list[Batch]:
    """`batch` cut along dimension 0 into `parts` equal micro-batches."""
    if parts == 1:
        return [batch]
    if isinstance(batch, Mapping):
        pieces = {name: tensor.chunk(parts) for name, tensor in batch.items()}
        return [{name: piece[part] for name, piece in pieces.items()} for part in range(parts)]
    return [tuple(piece) for piece in zip(*(tensor.chunk(parts) for tensor in batch), strict=True)]
