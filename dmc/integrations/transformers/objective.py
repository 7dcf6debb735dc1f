"""The loss of an update as `Trainer` computes it, as a module that can be compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Inputs = dict[str, Any]
# Of a model, inputs and the number of items: the loss and the model's outputs.
Compute = Callable[[nn.Module, Inputs, Tensor | None], tuple[Tensor, Any]]


class Objective(nn.Module):
    """`compute` over micro-batches. In eval mode it returns the outputs of the only one, too, without the loss."""

    def __init__(self, model: nn.Module, compute: Compute) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self._compute = compute

    def forward(self, parts: Sequence[Inputs], weight: Tensor, items: Tensor | None = None) -> Any:
        """The sum of the losses of `parts`, each divided by `items` where the model does that, times `weight`."""
        number = None if items is None else items.reshape(())
        results = [self._compute(self.model, dict(inputs), number) for inputs in parts]
        loss = torch.stack([value.reshape(()) for value, _ in results]).sum() * weight.reshape(())
        if self.training:
            return loss
        ((_, outputs),) = results
        return loss, _without_loss(outputs)


def _without_loss(outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, dict):
        return {name: value for name, value in outputs.items() if name != "loss"}
    return {str(number): value for number, value in enumerate(outputs[1:])}
