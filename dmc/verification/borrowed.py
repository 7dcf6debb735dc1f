"""Borrowing the user's modules for a step, which may do anything and leaves no trace."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_TABLES = ("_parameters", "_buffers", "_modules")


@contextmanager
def borrowed(modes: Mapping[nn.Module, bool], dtype: torch.dtype | None) -> Generator[None]:
    """Inside, the modules of `modes` have those modes, copied data in their tensors, and no gradients.

    The tensors are the same objects, so optimizers, hooks and closures that hold them see the copies, too. dtype: of
    converted floating tensors, or None. After the block, data, gradients, attributes and the state of all random
    generators are restored.
    """
    tensors = {id(tensor): tensor for module in modes for tensor in _tensors(module)}
    kept = [(tensor, tensor.data, tensor.grad) for tensor in tensors.values()]
    attributes = [_Attributes.of(module) for module in modes]
    generators = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            _copy(tensors.values(), dtype)
            for module, training in modes.items():
                module.training = training
            yield
    finally:
        random.setstate(generators[0])
        np.random.set_state(generators[1])
        for each in attributes:
            each.restore()
        for tensor, data, gradient in kept:
            # The gradient is removed first, because its type may not match the tensor's restored one.
            tensor.grad = None
            tensor.data = data
            tensor.grad = gradient


def _tensors(module: nn.Module) -> Iterable[Tensor]:
    return [*module.parameters(recurse=False), *module.buffers(recurse=False)]


def _copy(tensors: Iterable[Tensor], dtype: torch.dtype | None) -> None:
    """Gives each tensor its own memory; aliases stay aliases."""
    copies: dict[int, torch.UntypedStorage] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in copies:
            copies[storage.data_ptr()] = storage.clone()
        copy = copies[storage.data_ptr()]
        new = torch.empty(0, dtype=tensor.dtype).set_(copy, tensor.storage_offset(), tensor.size(), tensor.stride())
        tensor.grad = None
        tensor.data = new.to(dtype) if dtype is not None and tensor.is_floating_point() else new


@dataclass(frozen=True)
class _Attributes:
    """The attributes of a module, and its tables of parameters, buffers and modules."""

    module: nn.Module
    own: dict[str, Any]
    tables: dict[str, dict[str, Any]]

    @staticmethod
    def of(module: nn.Module) -> _Attributes:
        return _Attributes(module, dict(module.__dict__), {name: dict(module.__dict__[name]) for name in _TABLES})

    def restore(self) -> None:
        self.module.__dict__.clear()
        self.module.__dict__.update(self.own)
        for name, entries in self.tables.items():
            table = self.own[name]
            table.clear()
            table.update(entries)
