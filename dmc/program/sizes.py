"""Sizes in bytes: of tensors in an arena, and as text, by thousands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from dmc.errors import DmcError

# MLIR's names: f32, bf16, i1, ui8, f8E4M3FN; the first number is the width in bits.
_WIDTH = re.compile(r"(?:[su]?i|b?f|tf)(\d+)(?:E\d+M\d+[A-Z]*)?")
_INDEX_BYTES = 8
_SHOWN = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]i?)?B?$")
_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def element_bytes(dtype: str) -> int:
    """Bytes of one element of MLIR's type `dtype`; an i1 takes one. Raises DmcError for an unknown type."""
    if dtype == "index":
        return _INDEX_BYTES
    match = _WIDTH.fullmatch(dtype)
    if match is None:
        raise DmcError(f"element type {dtype}", "has no size", "use an integer or floating-point type of MLIR")
    return max(int(match[1]), 8) // 8


def tensor_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor of static shape, row-major and dense."""
    return prod(shape) * element_bytes(dtype)


def size_text(count: int, exact: bool = False) -> str:
    """`94.22 MB`, by thousands; `94,216,200 B` if `exact`."""
    for scale, unit in () if exact else _SHOWN:
        # What would be rounded to a thousand of a unit is one of the next.
        if abs(count) >= scale * 0.999995:
            return f"{count / scale:.2f} {unit}"
    return f"{count:,} B"


def size_of(text: str, name: str) -> int:
    """The bytes of a size such as 80GB, 80GiB or 4096, given as the option `name`. Raises DmcError."""
    found = _SIZE.match(text.strip())
    if found is None or not float(found[1]):
        raise DmcError(f"{name} {text}", "is not a size in bytes", hint="write it as in 80GB, 80GiB or 4096")
    return int(float(found[1]) * _UNITS.get(found[2] or "", 1))
