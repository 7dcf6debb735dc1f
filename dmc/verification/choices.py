"""What PyTorch leaves open, decided in eager as a compiled step decides it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class FirstOfEqual(TorchDispatchMode):
    """Inside, `topk` takes the first of equal elements.

    Which of them it takes is PyTorch's free choice, and the places that it gives say so: infinities are equal however
    little apart the numbers are that they come from.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten.topk.default and args[0].dim():
            return _topk(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, k).contiguous(), places.narrow(dim, 0, k).contiguous()
