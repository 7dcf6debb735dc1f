"""The tensors of a step and the parts of them that the ranks of its mesh hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from dmc.program.signature import Paddings, Signature, Splits, TensorSpec

Spec = TypeVar("Spec", bound=TensorSpec)
# The shape of what a rank has of a tensor that it does not hold.
NOTHING = (0,)
_Index = tuple[slice, ...] | tuple[np.ndarray, ...]


class Spread:
    """Where the elements of one tensor are. A rank that holds none of them has an empty part, of shape (0,)."""

    def __init__(
        self,
        shape: Sequence[int],
        splits: Splits,
        mesh: Mapping[str, int],
        paddings: Paddings | None = None,
        repeats: bool = False,
        holders: Sequence[int] | None = None,
    ) -> None:
        """shape: of the whole tensor, which the axes divide, with its padding. mesh: axis to size, major first.

        repeats: whether padding repeats elements, instead of zeros. holders: the ranks that have a part, one at least
        for each; None for all.
        """
        self.shape = tuple(shape)
        padded = paddings or tuple((1, size) for size in shape)
        self.part_shape = tuple(
            blocks * wide // math.prod(mesh[axis] for axis, _ in uses)
            for (blocks, wide), uses in zip(padded, splits, strict=True)
        )
        self.ranks = range(math.prod(mesh.values()))
        self.holders = frozenset(self.ranks if holders is None else holders)
        axes = [axis for uses in splits for axis, _ in uses]
        # For each rank, the places of its part in the whole tensor; none where the tensor is replicated.
        self._places: list[_Places] = []
        alike: dict[tuple[int, ...], list[int]] = {}
        for rank, place in enumerate(np.ndindex(*mesh.values())):
            index = dict(zip(mesh, place, strict=True))
            alike.setdefault(tuple(index[axis] for axis in axes), []).append(rank)
            if axes:
                dims = zip(shape, padded, splits, strict=True)
                kept = [_kept(_padded(size, *pad), uses, mesh, index) for size, pad, uses in dims]
                self._places.append(_Places.of(kept, repeats, shape))
        groups = [tuple(rank for rank in ranks if rank in self.holders) for ranks in alike.values()]
        # For each part, the ranks that hold it.
        self.replicas = [ranks for ranks in groups if ranks]
        # For each rank, the first that holds what it has, or would have if it held a part.
        self._firsts = {
            rank: own[0] for ranks, own in zip(alike.values(), groups, strict=True) if own for rank in ranks
        }

    def parts(self, whole: np.ndarray) -> list[np.ndarray]:
        """Each rank's part of `whole`, in rank order; without a copy where possible."""
        return [self.part(whole, rank) for rank in self.ranks]

    def part(self, array: np.ndarray, rank: int) -> np.ndarray:
        """A rank's part of the whole tensor; an array of the shape of a part is taken to be that rank's part."""
        if rank not in self.holders:
            return np.empty(NOTHING, array.dtype)
        is_part = not self._places or self.shape != array.shape == self.part_shape
        return array if is_part else self._places[rank].part(array)

    def held(self, part: np.ndarray, rank: int) -> np.ndarray:
        """What a rank's part holds of the whole tensor: the part without padding."""
        return self._places[rank].held(part) if self._places and rank in self.holders else part

    def shape_on(self, rank: int) -> tuple[int, ...]:
        """The shape of what a rank has."""
        return self.part_shape if rank in self.holders else NOTHING

    def first_with(self, rank: int) -> int:
        """The first rank that holds a rank's part; of a rank that holds none, what it would be by its place."""
        return self._firsts[rank]

    @property
    def is_everywhere(self) -> bool:
        """Whether every rank has a part."""
        return len(self.holders) == len(self.ranks)

    @property
    def is_split(self) -> bool:
        """Whether some ranks do not have the whole tensor."""
        return bool(self._places) or not self.is_everywhere

    def whole(self, part_of: Callable[[int], np.ndarray]) -> np.ndarray:
        """The tensor whose parts are `part_of(rank)`; of ranks that hold the same part, only the first is asked."""
        if not self._places:
            return part_of(self.replicas[0][0])
        parts = {ranks[0]: part_of(ranks[0]) for ranks in self.replicas}
        whole = np.empty(self.shape, next(iter(parts.values())).dtype)
        for rank, part in parts.items():
            self._places[rank].put(part, whole)
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
        inputs = {spec.name for spec in signature.batch}
        self.spreads = {
            spec.name: Spread(
                spec.shape,
                signature.splits_of(spec),
                self._mesh,
                signature.paddings.get(spec.name),
                repeats=spec.name in inputs,
                holders=signature.holders.get(spec.name),
            )
            for spec in specs
        }
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
        """A tensor as this process has it, and what it makes it of: of several ranks the whole, of one its part, also
        where another rank has to give it that."""
        spread = self.spreads[spec.name]
        if self.is_all:
            return spec, spread
        return replace(spec, shape=spread.part_shape), Spread(spread.part_shape, ((),) * len(spec.shape), {})

    def local(self, spec: Spec, rank: int) -> Spec:
        """The tensor of the linked step that is the part of `rank`."""
        return replace(spec, name=f"{spec.name}@{rank}", shape=self.spreads[spec.name].shape_on(rank))

    def _link(self, signature: Signature) -> Signature:
        return replace(
            signature,
            state=tuple(self._each(signature.state)),
            controls=tuple(self._each(signature.controls)),
            batch=tuple(self._each(signature.batch)),
            outputs=tuple(self._each(signature.outputs)),
            mesh=None,
            splits={},
            paddings={},
            holders={},
        )

    def _each(self, specs: Sequence[Spec]) -> Iterator[Spec]:
        return (self.local(spec, rank) for spec in specs for rank in self.held)


@dataclass(frozen=True)
class _Places:
    """The places of a rank's part in a whole tensor.

    taken: an index of the whole tensor. inside: an index of the part: where its elements are that the tensor has; None
    where that is all of it.
    """

    shape: tuple[int, ...]
    taken: _Index
    inside: _Index | None

    @staticmethod
    def of(kept: Sequence[np.ndarray], repeats: bool, shape: Sequence[int]) -> _Places:
        """kept: for each dimension the places, of which those behind its size are padding."""
        own = tuple(map(len, kept))
        if all((places < size).all() for places, size in zip(kept, shape, strict=True)):
            return _Places(own, _indexing(kept), None)
        if repeats:
            return _Places(own, _indexing([places % size for places, size in zip(kept, shape, strict=True)]), None)
        inside = [np.flatnonzero(places < size) for places, size in zip(kept, shape, strict=True)]
        return _Places(
            own, _indexing([places[own] for places, own in zip(kept, inside, strict=True)]), _indexing(inside)
        )

    def part(self, whole: np.ndarray) -> np.ndarray:
        """The part of a whole tensor."""
        if self.inside is None:
            return whole[self.taken]
        part = np.zeros(self.shape, whole.dtype)
        part[self.inside] = whole[self.taken]
        return part

    def put(self, part: np.ndarray, whole: np.ndarray) -> None:
        """Writes the part into the whole tensor."""
        whole[self.taken] = self.held(part)

    def held(self, part: np.ndarray) -> np.ndarray:
        """The part without padding."""
        return part if self.inside is None else part[self.inside]


def _padded(size: int, blocks: int, wide: int) -> np.ndarray:
    """The places of a dimension's elements; those of padding count on behind its size."""
    own = size // blocks if blocks else 0
    if own == wide:
        return np.arange(size)
    places = np.arange(blocks)[:, None] * own + np.arange(wide)
    # Padding repeats the elements of its block from the first on.
    return np.where(np.arange(wide) < own, places, size + places % size).reshape(-1)


def _kept(
    places: np.ndarray, uses: Sequence[tuple[str, int]], mesh: Mapping[str, int], index: Mapping[str, int]
) -> np.ndarray:
    """Of places along a dimension, those that the rank with these coordinates holds, in order."""
    for axis, blocks in uses:
        # Not with -1 for the last dimension, which is undefined for an empty array.
        rest = len(places) // (blocks * mesh[axis])
        places = places.reshape(blocks, mesh[axis], rest)[:, index[axis]].reshape(-1)
    return places


def _indexing(kept: Sequence[np.ndarray]) -> _Index:
    """An array index for these places of each dimension: slices, which need no copy, where possible."""
    ranges = [slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0) for places in kept]
    if all(len(places) == each.stop - each.start for places, each in zip(kept, ranges, strict=True)):
        return tuple(ranges)
    return np.ix_(*kept)
