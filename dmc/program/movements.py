"""Every movement between ranks in one training step, why it is there, and how far it is from the lower bound.

Bytes are those that ranks send to other ranks, each piece once, over all ranks and all loop iterations; data that a
rank keeps is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dmc.program.labels import GRADIENT, SEPARATOR
from dmc.program.limits import Axis, AxisSize, Count, Name, Shape


@dataclass(frozen=True)
class Entry:
    """One collective of the step, or one member of the bucket that it moves.

    kind: "all_reduce", "all_gather", … tensor: a parameter's name, "gradient of" one, or the module path where an
    activation is produced; "" if unknown. dtype, shape: of each rank's operand, by MLIR's name and in elements; flat
    where it is a piece of a bucket. axes, group: the mesh axes along which ranks communicate, and the size of each
    group. bytes: in one step, over all ranks. why: the rules or the operation that require it. place: module, operation
    and line of Python. label: its name in the plan: the tensor, or the module path, with its part
    (`h.1.mlp, backward`).
    """

    kind: Name
    tensor: Name
    dtype: Name
    shape: Shape
    axes: tuple[Axis, ...]
    group: Count
    bytes: Count
    why: str = ""
    place: str = ""
    label: str = ""

    @property
    def owner(self) -> str:
        """The parameter whose value or gradient this moves, or the module of an activation."""
        return self.tensor.removeprefix(GRADIENT)


@dataclass(frozen=True)
class Bound:
    """The fewest bytes that a step can send for one trained tensor or module over some axes, over all ranks.

    of: the name of a tensor, for its value and its gradient over the data axes: 2(n-1)T for each group of n ranks
    that train on different data, 2(n-1)/n·T for each rank, where T is the size of the tensor as a rank uses it.

    * (n-1)T reduce the n partial gradients: n-1 contributions to every element must move (Chan et al. 2007,
      "Collective communication: theory, practice, and experience", section 3; Patarasuk and Yuan 2009, "Bandwidth
      optimal all-reduce algorithms", section 3). The gradient is assumed dense, and summed rather than recomputed.
    * (n-1)T bring the result to the n-1 ranks that did not compute it: as the second half of an all-reduce
      (replicated), or as the gather of new parameters (ZeRO of stage 1) or of stored ones before use (stages 2 and 3).

    These are the 2Ψ of Rajbhandari et al. 2020 ("ZeRO", section 7). Their 3Ψ of stage 3 gathers once for forward and
    again for backward, which saves memory but is not needed: such a step has a ratio of 1.5 here.

    of: the path of a module that a ready Megatron plan splits by columns and then by rows: 4(n-1)T for each group of n
    ranks along the axis, where T is the size of its activation, tokens × width. Its output is all-reduced in forward
    and the gradient of its input in backward. Attention and MLP are such modules: two all-reduces per block and
    direction (Shoeybi et al. 2019, "Megatron-LM", section 3).

    T counts elements in the narrowest type in which the step moves them. For anything else no bound is known.
    """

    of: Name
    axes: tuple[Axis, ...]
    bytes: Count


@dataclass(frozen=True)
class Total:
    """The bytes sent, and their lower bound; None where no bound is known."""

    bytes: int
    bound: int | None = None

    @property
    def ratio(self) -> float | None:
        """Sent ÷ bound. Below 1 the program moves something else instead, such as the activations of a small batch."""
        return self.bytes / self.bound if self.bound else None


@dataclass(frozen=True)
class Movements:
    """The movements of one step, in program order, and their sums.

    mesh: axis to number of ranks; empty for a step that was not compiled for a mesh. ranks: the bytes that each rank
    sends. offloaded: the bytes that each rank moves to host memory and back. fetched: the bytes of optimizer state that
    each rank moves from host memory and back.
    """

    mesh: Mapping[Axis, AxisSize] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    ranks: tuple[Count, ...] = ()
    bounds: tuple[Bound, ...] = ()
    offloaded: tuple[Count, ...] = ()
    fetched: tuple[Count, ...] = ()

    @property
    def bytes(self) -> int:
        """The bytes sent in one step, over all ranks."""
        return sum(entry.bytes for entry in self.entries)

    def whys(self) -> dict[str, str]:
        """The rules behind the movements of each label, where known; several are joined."""
        found: dict[str, dict[str, None]] = {}
        for entry in self.entries:
            if entry.label and entry.why:
                found.setdefault(entry.label, {})[entry.why] = None
        return {label: SEPARATOR.join(whys) for label, whys in found.items()}

    def by_kind(self) -> dict[str, int]:
        """Bytes by kind of collective, largest first."""
        return _sums((entry.kind, entry.bytes) for entry in self.entries)

    def by_axes(self) -> dict[tuple[str, ...], int]:
        """Bytes by the mesh axes along which they are sent, largest first; groups along several axes count
        separately."""
        return _sums((entry.axes, entry.bytes) for entry in self.entries)

    def bound_of(self, entry: Entry) -> Bound | None:
        """The bound a movement counts towards: that of its tensor or of the innermost module around it."""
        path = entry.owner
        while path:
            for bound in self._bounds.get(path, ()):
                if set(bound.axes) & set(entry.axes):
                    return bound
            path = path.rpartition(".")[0]
        return None

    @cached_property
    def totals(self) -> dict[Bound, Total]:
        """For each bound, the bytes sent that count towards it."""
        sent = dict.fromkeys(self.bounds, 0)
        for entry in self.entries:
            if bound := self.bound_of(entry):
                sent[bound] += entry.bytes
        return {bound: Total(size, bound.bytes) for bound, size in sent.items()}

    def bounded(self) -> dict[tuple[str, ...], Total]:
        """The sums of `totals`, by axes."""
        sums: dict[tuple[str, ...], Total] = {}
        for bound, total in self.totals.items():
            before = sums.get(bound.axes, Total(0, 0))
            sums[bound.axes] = Total(before.bytes + total.bytes, (before.bound or 0) + bound.bytes)
        return sums

    @cached_property
    def _bounds(self) -> dict[str, list[Bound]]:
        found: dict[str, list[Bound]] = {}
        for bound in self.bounds:
            found.setdefault(bound.of, []).append(bound)
        return found


def _sums(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    sums: dict[Any, int] = {}
    for key, size in pairs:
        sums[key] = sums.get(key, 0) + size
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
