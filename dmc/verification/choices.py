"""Choices that PyTorch leaves open, made in eager as in a compiled step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
Sorted = tuple[Tensor, Tensor]


class FirstOfEqual(TorchDispatchMode):
    """Inside, sorts are stable.

    PyTorch does not specify the order of ties, and the indices it returns show it: even nearly equal numbers may become
    equal infinities.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        decided = _DECIDED.get(func) if args and isinstance(args[0], Tensor) and args[0].dim() else None
        return (decided or func)(*args, **(kwargs or {}))


def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> Sorted:
    return torch.sort(x, dim=dim, descending=descending, stable=True)


def _stable_sort(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Sorted:
    return _sort(x, dim, descending)


def _topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sorted:
    values, places = _sort(x, dim, largest)
    return values.narrow(dim, 0, k).contiguous(), places.narrow(dim, 0, k).contiguous()


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Sorted:
    value, place = (each.narrow(dim, k - 1, 1).contiguous() for each in _sort(x, dim))
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


_DECIDED = {
    aten.sort.default: _sort,
    aten.sort.stable: _stable_sort,
    aten.topk.default: _topk,
    aten.kthvalue.default: _kthvalue,
}
