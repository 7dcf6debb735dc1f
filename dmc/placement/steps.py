"""The kinds of single steps: one class per op of `dm` that changes a placement."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmc.placement.placement import Placement


@dataclass(frozen=True)
class Step:
    """A movement within the groups along `axes` (major first) that moves `bytes` in total, over all ranks.

    blocks: (dimension, number) if a dimension is this many equal blocks side by side, and the step applies to each.
    """

    axes: tuple[str, ...]
    source: Placement
    target: Placement
    bytes: int
    blocks: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class AllGather(Step):
    """`dm.all_gather`: the pieces are concatenated along `dim`."""

    dim: int


@dataclass(frozen=True)
class AllSlice(Step):
    """`dm.all_slice`: every rank keeps its slice along `dim`."""

    dim: int


@dataclass(frozen=True)
class AllToAll(Step):
    """`dm.all_to_all`: split along `split_dim`, concatenated along `concat_dim`."""

    split_dim: int
    concat_dim: int


@dataclass(frozen=True)
class ReduceScatter(Step):
    """`dm.reduce_scatter`: reduces by `kind`, and every rank gets its slice along `dim`."""

    dim: int
    kind: str


@dataclass(frozen=True)
class AllReduce(Step):
    """`dm.all_reduce`: reduces by `kind`."""

    kind: str


@dataclass(frozen=True)
class Permute(Step):
    """`dm.permute`: `pairs` are places in the group, (source, target)."""

    pairs: tuple[tuple[int, int], ...]
