"""Aliasing tensors: in PyTorch a write to one changes the other, but a compiled step gives each its own memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations

import torch

from dmc.errors import ImportFailure
from dmc.importer.torch_internals import has_overlap_within, storage_key


def check_sharing(
    state: Mapping[str, torch.Tensor], batch: Mapping[str, torch.Tensor], changed: Collection[str]
) -> None:
    """Raises ImportFailure where a tensor of `state` that the step has `changed` shares memory.

    A tensor with two names is one tensor, and is in `state` once.
    """
    for name in changed:
        # Such as an expanded tensor, all of whose rows are one.
        if has_overlap_within(state[name]):
            fact = f"has elements that share memory (shape {list(state[name].shape)}, stride {state[name].stride()})"
            raise ImportFailure(name, f"{fact}, and the step changes it", hint="give it its own memory: .clone()")
    changing = set(changed)
    for group in _groups([*state.items(), *batch.items()]):
        for (one, first), (other, second) in combinations(group, 2):
            if (one in changing or other in changing) and _overlap(first, second):
                raise ImportFailure(
                    one,
                    f"shares memory with {other}, and the step changes {one if one in changing else other}",
                    hint="assign the same nn.Parameter to both to tie them, use a view of it in `forward`, or give it "
                    "its own memory: .clone()",
                )


def _groups(tensors: list[tuple[str, torch.Tensor]]) -> list[list[tuple[str, torch.Tensor]]]:
    groups: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in tensors:
        groups.setdefault(storage_key(tensor), []).append((name, tensor))
    return list(groups.values())


def _overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors in one storage overlap."""
    (start, end), (other_start, other_end) = _range(first), _range(second)
    if end <= other_start or other_end <= start:
        return False
    # Views may interleave, as columns of a matrix do, so every byte must be compared.
    marks = torch.zeros(max(end, other_end), dtype=torch.bool)
    _bytes(marks, first).fill_(True)
    return bool(_bytes(marks, second).any())


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    first = int(tensor.storage_offset())
    return first * tensor.itemsize, (first + last + 1) * tensor.itemsize


def _bytes(marks: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The elements of `marks`, one per byte of a storage, that belong to `tensor`."""
    width = tensor.itemsize
    strides = [stride * width for stride in tensor.stride()]
    return marks.as_strided([*tensor.shape, width], [*strides, 1], tensor.storage_offset() * width)
