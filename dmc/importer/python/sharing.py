"""Tensors that lie in the same memory without being one: PyTorch changes both by changing either, but a compiled step
keeps each in memory of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations

import torch

from dmc.errors import ImportFailure
from dmc.importer.torch_internals import has_overlap_within, storage_key


def check_sharing(
    state: Mapping[str, torch.Tensor], batch: Mapping[str, torch.Tensor], changed: Collection[str]
) -> None:
    """Raises ImportFailure where a tensor of `state` that is among those `changed` by the step shares memory.

    A tensor under two names is one, and is in `state` once.
    """
    for name in changed:
        # Such as an expanded tensor, of which all rows are one.
        if has_overlap_within(state[name]):
            fact = f"has elements that share memory (shape {list(state[name].shape)}, stride {state[name].stride()})"
            raise ImportFailure(name, f"{fact}, and the step changes it", hint="give it memory of its own: .clone()")
    changing = set(changed)
    for group in _groups([*state.items(), *batch.items()]):
        for (one, first), (other, second) in combinations(group, 2):
            if (one in changing or other in changing) and _overlap(first, second):
                raise ImportFailure(
                    one,
                    f"shares memory with {other}, and the step changes {one if one in changing else other}",
                    hint="assign one the same nn.Parameter as the other to tie them, use a view of it in `forward`, or "
                    "give it memory of its own: .clone()",
                )


def _groups(tensors: list[tuple[str, torch.Tensor]]) -> list[list[tuple[str, torch.Tensor]]]:
    groups: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in tensors:
        groups.setdefault(storage_key(tensor), []).append((name, tensor))
    return list(groups.values())


def _overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors in one storage have a byte in common."""
    (start, end), (other_start, other_end) = _range(first), _range(second)
    if end <= other_start or other_end <= start:
        return False
    # Views may interleave, as columns of a matrix do, so that their bytes must be told one by one.
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
    """The elements of `marks`, one for each byte of a storage, that stand for `tensor`."""
    width = tensor.itemsize
    strides = [stride * width for stride in tensor.stride()]
    return marks.as_strided([*tensor.shape, width], [*strides, 1], tensor.storage_offset() * width)
