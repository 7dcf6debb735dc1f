"""The micro-batches of one update, as a batch of a compiled step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dmc.errors import DmcError

Inputs = Mapping[str, Any]
Shape = tuple[Any, ...]


@dataclass(frozen=True)
class Update:
    """parts: micro-batches that the objective runs one by one. accumulate: the number of those that the step runs in a
    loop, each a part of the one in `parts`. items: by which their losses are divided, where the model does that.
    is_scaled: whether the loss of an update is the sum of theirs; else it is their mean.
    """

    parts: tuple[Inputs, ...]
    accumulate: int
    items: float | None
    is_scaled: bool

    @staticmethod
    def of(micro: list[Inputs], items: Tensor | float | None, is_scaled: bool) -> Update:
        """Micro-batches of one shape are run in a loop, others one by one: a program for each such mixture."""
        number = None if items is None else float(items)
        own = [_tensors(each) for each in micro]
        if len(own) > 1 and len({_shape(each) for each in own}) == 1:
            joined = {name: torch.cat([each[name] for each in own]) for name in own[0]}
            return Update((joined,), len(own), number, is_scaled)
        return Update(tuple(own), 1, number, is_scaled)

    @property
    def shape(self) -> Shape:
        """What a program is compiled for."""
        return (self.accumulate, self.items is None, *map(_shape, self.parts))

    def batch(self) -> dict[str, Any]:
        """The inputs of `Objective`. A step takes the mean over its loop."""
        weight = self.accumulate if self.is_scaled else 1 / len(self.parts)
        numbers = {} if self.items is None else {"items": torch.full((self.accumulate,), self.items)}
        return {"parts": list(self.parts), "weight": torch.full((self.accumulate,), float(weight)), **numbers}


def _tensors(inputs: Inputs) -> dict[str, Tensor]:
    """The inputs on the host. Raises DmcError for what is no tensor."""
    if wrong := [name for name, value in inputs.items() if not isinstance(value, Tensor)]:
        fact = f"is a {type(inputs[wrong[0]]).__name__}; a compiled step takes tensors"
        raise DmcError(f"input '{wrong[0]}'", fact, hint="let the data collator leave it out, or make a tensor of it")
    return {name: value.detach().cpu() for name, value in inputs.items()}


def _shape(inputs: Mapping[str, Tensor]) -> Shape:
    return tuple((name, tuple(each.shape), each.dtype) for name, each in sorted(inputs.items()))
