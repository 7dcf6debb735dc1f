"""Parameters and buffers on the device meta: while a model is traced, tensors on the CPU stand in for them.

Nobody reads their numbers, so they take up addresses and no memory.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dmc.errors import ImportFailure
from dmc.importer.capture.buffers import computed
from dmc.importer.capture.registered import modules_of
from dmc.importer.torch_internals import buffers_of, parameters_of, storage_key

# Linux promises such memory beyond what there is; before 3.13 Python has no name for it.
_NO_RESERVE = 0x4000


@dataclass(frozen=True)
class _Place:
    """A tensor on the device meta, in the registry of a module."""

    path: str
    module: nn.Module
    name: str
    tensor: Tensor

    @property
    def full(self) -> str:
        """Its name in the model."""
        return f"{self.path}.{self.name}" if self.path else self.name

    @property
    def is_buffer(self) -> bool:
        """Whether it is no parameter."""
        return self.name in buffers_of(self.module)


def put_stand_ins(model: nn.Module, loss: nn.Module | None, dtype: torch.dtype | None) -> frozenset[str]:
    """Replaces what is on the device meta in the registries of both; whoever traces them puts it back. Returns the
    names of tensors without numbers: all of these, but for buffers that modules compute.

    dtype: the type that floating tensors are converted to, if any. Raises ImportFailure for a buffer whose numbers are
    neither computed nor in a file of weights.
    """
    modules = dict(modules_of(model, loss))
    made: dict[object, tuple[Tensor, bool]] = {}
    unset: set[str] = set()
    for place in list(_on_meta(modules)):
        old = place.tensor
        # One memory is one tensor: `accelerate` makes two of one that `transformers` has tied.
        key = storage_key(old), old.storage_offset(), old.shape, old.stride(), place.is_buffer
        if key not in made:
            value = computed(modules, place.path, place.name) if place.is_buffer else None
            made[key] = (_stand_in(place, dtype), True) if value is None else (value, False)
        tensor, is_unset = made[key]
        registry = buffers_of(place.module) if place.is_buffer else parameters_of(place.module)
        registry[place.name] = tensor
        unset |= {place.full} if is_unset else set()
    return frozenset(unset)


def _on_meta(modules: Mapping[str, nn.Module]) -> Iterator[_Place]:
    for path, module in modules.items():
        for name, tensor in (*parameters_of(module).items(), *buffers_of(module).items()):
            if tensor is not None and tensor.is_meta:
                yield _Place(path, module, name, tensor)


def _stand_in(place: _Place, dtype: torch.dtype | None) -> Tensor:
    old = place.tensor
    if place.is_buffer and place.name not in place.module.state_dict():
        fact = "is a buffer on the device 'meta', which no file of weights has, and no function of its module computes"
        hint = "make it outside of torch.device('meta'), as accelerate.init_empty_weights does, or assign it a new one"
        raise ImportFailure(place.full, fact, hint)
    kind = dtype if dtype is not None and old.is_floating_point() else old.dtype
    tensor = _untouched(old, kind)
    return tensor if place.is_buffer else nn.Parameter(tensor, old.requires_grad)


def _untouched(like: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor that lies in memory like another, of memory that is taken only where it is touched."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(like.shape, like.stride(), strict=True))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, max(extent, 1) * dtype.itemsize, flags=flags)
    return torch.frombuffer(memory, dtype=dtype, count=max(extent, 1)).as_strided(like.shape, like.stride())
