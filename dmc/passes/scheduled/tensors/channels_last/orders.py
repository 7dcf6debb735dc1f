"""Orders of dimensions: dimension i in memory is dimension `order[i]` of what a value means."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dmc._mlir import ir

Order = tuple[int, ...]


def identity(rank: int) -> Order:
    """Each dimension at its place."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """Batch and channels behind the image: [N, C, H, W] lies as [H, W, N, C]."""
    return (*range(2, rank), 0, 1)


def turned(order: Order, permutation: Sequence[int]) -> Order:
    """The order in which a transposed value lies if it is not moved in memory."""
    return tuple(list(permutation).index(dim) for dim in order)


def is_image(type_: ir.Type) -> bool:
    """Whether a type is that of [N, C, H, W, …] with more than one pixel."""
    return isinstance(type_, ir.RankedTensorType) and len(type_.shape) >= 4 and prod(type_.shape[2:]) > 1


def permuted(type_: ir.RankedTensorType, order: Order) -> ir.RankedTensorType:
    """The type of a value in memory."""
    return ir.RankedTensorType.get([type_.shape[dim] for dim in order], type_.element_type)
