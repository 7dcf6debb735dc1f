"""The example of a request as the batch of a compiled step, and other batches like it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from dmc.dtypes import Array
from dmc.errors import InputError
from dmc.program.signature import Signature
from dmc.runtime.tensors.arrays import to_array
from dmc.runtime.tensors.tree import flatten_call


def reordered(example: Any, by: int) -> Any:
    """Another example of the same shapes and types: rows are so many places further, the same in all tensors that have
    as many as the first one. What an index or a class refers to is still there.
    """
    example = dict(example) if isinstance(example, Mapping) else example
    rows = next((each.shape[0] for each in pytree.tree_leaves(example) if isinstance(each, Tensor) and each.dim()), 0)

    def turned(tensor: Tensor) -> Tensor:
        if not tensor.dim() or tensor.shape[0] != rows:
            return tensor
        new = torch.empty_like(tensor).copy_(tensor.detach().roll(by, 0))
        # A program is for strides, and rows that share memory are equal.
        return new if new.stride() == tensor.stride() else tensor

    return pytree.tree_map_only(Tensor, turned, example)


def batch_of(example: Any, signature: Signature) -> dict[str, Array]:
    """The tensors of an example by the names of the signature."""
    positional, keyword = ((), example) if isinstance(example, Mapping) else (example, {})
    flat = flatten_call(signature, positional, keyword)
    return {
        spec.name: to_array(value, spec, f"input {spec.name!r}", InputError)
        for spec, value in zip(signature.batch, flat, strict=True)
    }
