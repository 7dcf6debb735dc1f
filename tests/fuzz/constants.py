"""The constants that a template asks for, drawn to fit its first operand."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor

from tests.random_text import Choose

SCALARS = ("-2.0", "-1.0", "-0.5", "0.0", "0.5", "1.0", "1.5", "3.0")
INT_TYPES = ("int64", "int64", "int32", "int8")


def constant(kind: str, choose: Choose, first: Tensor | None) -> str:
    """The text of a constant of a kind; `first` is the first operand."""
    return CONSTANTS[kind](choose, torch.zeros([]) if first is None else first)


def _dim(choose: Choose, first: Tensor) -> str:
    rank = max(first.dim(), 1)
    return str(choose(2 * rank) - rank)


def _dims(choose: Choose, first: Tensor) -> str:
    rank = max(first.dim(), 1)
    chosen = [dim for dim in range(rank) if choose(2)] or [choose(rank)]
    return str(tuple(chosen))


def _shape(choose: Choose, first: Tensor) -> str:
    """Neighbouring dimensions joined, or one split."""
    shape = list(first.shape)
    if len(shape) > 1 and choose(3):
        at = choose(len(shape) - 1)
        return str((*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
    factors = [n for n in (2, 3, 4) if first.numel() % n == 0]
    return str((factors[choose(len(factors))], -1) if factors and first.numel() else (-1,))


def _sizes(choose: Choose, first: Tensor) -> str:
    wider = [size if size != 1 else 1 + choose(3) for size in first.shape]
    return str((*((1 + choose(3),) if choose(2) else ()), *wider))


def _permutation(choose: Choose, first: Tensor) -> str:
    left = list(range(first.dim()))
    return str(tuple(left.pop(choose(len(left))) for _ in range(first.dim())))


def _slice(choose: Choose, first: Tensor) -> str:
    return ("1:", ":-1", "::2", ":1", "0", "-1", "1::2", ":, 1", "..., :2", "..., 0")[choose(10)]


def _rows(choose: Choose, first: Tensor) -> str:
    """Legal indices along dimension 0, in a constant tensor."""
    size = first.shape[0] if first.dim() else 1
    return f"torch.tensor({[choose(max(size, 1)) for _ in range(1 + choose(3))]})"


def _indices(choose: Choose, first: Tensor) -> str:
    """The same, of the shape of the first operand."""
    size = first.shape[0] if first.dim() else 1
    numbers = [choose(max(size, 1)) for _ in range(prod(first.shape))]
    return f"torch.tensor({numbers}).reshape({tuple(first.shape)})"


CONSTANTS: dict[str, Callable[[Choose, Tensor], str]] = {
    "dim": _dim,
    "dims": _dims,
    "shape": _shape,
    "sizes": _sizes,
    "permutation": _permutation,
    "slice": _slice,
    "rows": _rows,
    "indices": _indices,
    "index": lambda choose, _: str(choose(3) - 1),
    "count": lambda choose, _: str(1 + choose(3)),
    "whole": lambda choose, _: str(choose(7) - 3),
    "scalar": lambda choose, _: SCALARS[choose(len(SCALARS))],
    "diagonal": lambda choose, _: str(choose(3) - 1),
    "repeats": lambda choose, first: str((2, *(1 + choose(2) for _ in range(max(first.dim() - 1, 0))))),
    "pad": lambda choose, first: str(tuple(choose(4) - 1 for _ in range(2 * min(first.dim(), 1 + choose(2))))),
    "int_type": lambda choose, _: INT_TYPES[choose(len(INT_TYPES))],
}
