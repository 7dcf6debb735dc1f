"""Sizes of tensors in an arena, in bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from dmc.errors import DmcError

# MLIR's names: f32, bf16, i1, f8E4M3FN; the first number is the width in bits.
_WIDTH = re.compile(r"[a-z]+(\d+)")
_INDEX_BYTES = 8


def element_bytes(dtype: str) -> int:
    """Bytes of one element of MLIR's type `dtype`; an i1 takes one. Raises DmcError for an unknown type."""
    if dtype == "index":
        return _INDEX_BYTES
    match = _WIDTH.match(dtype)
    if match is None:
        raise DmcError(f"element type {dtype}", "has no size", "use an integer or floating-point type of MLIR")
    return max(int(match[1]), 8) // 8


def tensor_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor of static shape, row-major and dense."""
    return prod(shape) * element_bytes(dtype)
