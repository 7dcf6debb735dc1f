"""The tensors of a step and the parts of them that the ranks of its mesh hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dmc.runtime.signature import Signature, Splits, TensorSpec

Spec = TypeVar("Spec", bound=TensorSpec)


class Spread:
    """Where the elements of one tensor are."""

    def __init__(self, shape: Sequence[int], splits: Splits, mesh: Mapping[str, int]) -> None:
        """shape: of the whole tensor, which the axes divide. mesh: axis to size, major first."""
        self.shape = tuple(shape)
        self.part_shape = tuple(
            size // math.prod(mesh[axis] for axis, _ in uses) for size, uses in zip(shape, splits, strict=True)
        )
        self.ranks = range(math.prod(mesh.values()))
        axes = [axis for uses in splits for axis, _ in uses]
        # For each rank, the index of its part in the whole tensor; none where the tensor is replicated.
        self._index: list[tuple[slice, ...] | tuple[np.ndarray, ...]] = []
        alike: dict[tuple[int, ...], list[int]] = {}
        for rank, place in enumerate(np.ndindex(*mesh.values())):
            index = dict(zip(mesh, place, strict=True))
            alike.setdefault(tuple(index[axis] for axis in axes), []).append(rank)
            if axes:
                kept = [_kept(size, uses, mesh, index) for size, uses in zip(shape, splits, strict=True)]
                self._index.append(_indexing(kept))
        # For each part, the ranks that hold it.
        self.replicas = [tuple(ranks) for ranks in alike.values()]

    def parts(self, whole: np.ndarray) -> list[np.ndarray]:
        """Each rank's part of `whole`, in rank order; without a copy where possible."""
        return [self.part(whole, rank) for rank in self.ranks]

    def part(self, array: np.ndarray, rank: int) -> np.ndarray:
        """A rank's part of the whole tensor; an array of the shape of a part is taken to be that rank's part."""
        is_part = not self._index or array.shape == self.part_shape
        return array if is_part else array[self._index[rank]]

    @property
    def is_split(self) -> bool:
        """Whether no rank has the whole tensor."""
        return bool(self._index)

    def whole(self, part_of: Callable[[int], np.ndarray]) -> np.ndarray:
        """The tensor whose parts are `part_of(rank)`; of ranks that hold the same part, only the first is asked."""
        if not self._index:
            return part_of(0)
        parts = {ranks[0]: part_of(ranks[0]) for ranks in self.replicas}
        whole = np.empty(self.shape, parts[0].dtype)
        for rank, part in parts.items():
            whole[self._index[rank]] = part
        return whole


class Ranks:
    """How all tensors of a step are placed on the ranks of its mesh. A step without a mesh is one rank, which has whole
    tensors.

    held: the ranks in this process: all of them, or one.
    linked: the calling convention of the held ranks linked into one program: for each tensor of the step's signature
    one per held rank, `<name>@<rank>`, in rank order. Without a mesh it is the step's own.
    """

    def __init__(self, signature: Signature, only: int | None = None) -> None:
        """only: the rank that this process is; None where it is all of them."""
        self._mesh = signature.mesh or {}
        self.count = math.prod(self._mesh.values())
        self.held = tuple(range(self.count)) if only is None else (only,)
        specs = (*signature.state, *signature.controls, *signature.batch, *signature.outputs)
        self.spreads = {spec.name: Spread(spec.shape, signature.splits_of(spec), self._mesh) for spec in specs}
        self.linked = signature if signature.mesh is None else self._link(signature)

    def scatter(self, specs: Sequence[TensorSpec], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The held ranks' parts of one array for each of `specs`, in the order of the linked step.

        A process with one rank may pass that rank's part instead of the whole array.
        """
        if not self._mesh:
            return [*arrays]
        pairs = zip(specs, arrays, strict=True)
        return [self.spreads[spec.name].part(array, rank) for spec, array in pairs for rank in self.held]

    @property
    def is_all(self) -> bool:
        """Whether this process is all ranks."""
        return len(self.held) == self.count

    def seen(self, spec: Spec) -> tuple[Spec, Spread]:
        """A tensor as this process has it, and what it makes it of: of several ranks the whole, of one its part."""
        spread = self.spreads[spec.name]
        if self.is_all:
            return spec, spread
        return replace(spec, shape=spread.part_shape), Spread(spread.part_shape, ((),) * len(spec.shape), {})

    def local(self, spec: Spec, rank: int) -> Spec:
        """The tensor of the linked step that is the part of `rank`."""
        return replace(spec, name=f"{spec.name}@{rank}", shape=self.spreads[spec.name].part_shape)

    def _link(self, signature: Signature) -> Signature:
        return replace(
            signature,
            state=tuple(self._each(signature.state)),
            controls=tuple(self._each(signature.controls)),
            batch=tuple(self._each(signature.batch)),
            outputs=tuple(self._each(signature.outputs)),
            mesh=None,
            splits={},
        )

    def _each(self, specs: Sequence[Spec]) -> Iterator[Spec]:
        return (self.local(spec, rank) for spec in specs for rank in self.held)


def _kept(size: int, uses: Sequence[tuple[str, int]], mesh: Mapping[str, int], index: Mapping[str, int]) -> np.ndarray:
    """The indices along a dimension of `size` that the rank with these coordinates holds, in order."""
    places = np.arange(size)
    for axis, blocks in uses:
        # Not with -1 for the last dimension, which is undefined for an empty array.
        rest = len(places) // (blocks * mesh[axis])
        places = places.reshape(blocks, mesh[axis], rest)[:, index[axis]].reshape(-1)
    return places


def _indexing(kept: Sequence[np.ndarray]) -> tuple[slice, ...] | tuple[np.ndarray, ...]:
    """An array index for these places of each dimension: slices, which need no copy, where possible."""
    ranges = [slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0) for places in kept]
    if all(len(places) == each.stop - each.start for places, each in zip(kept, ranges, strict=True)):
        return tuple(ranges)
    return np.ix_(*kept)
