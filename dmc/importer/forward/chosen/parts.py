"""How the operands of a call take part in it: which of their dimensions meet, and what is computed along these.

Each rule says it, and what it does not say is refused: so no rule combines what different masks choose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from torch import Tensor

from dmc.importer.forward.chosen.values import ALONG_CHOSEN, Chosen, Extent, refused

DIFFERENT = "combines elements that different masks choose"
AGREE = "choose both by the same mask, or make one tensor of them by torch.where(mask, x, y)"

Operand: TypeAlias = Tensor | Chosen
Label: TypeAlias = Hashable
# A value, or what gives it for a type.
Fill: TypeAlias = Any


@dataclass(frozen=True)
class Parts:
    """How operands take part.

    labels: by operand, of its dimensions; those of equal labels meet: places beside each other are computed with each
    other. kept: labels along which each place of the result is computed of this place alone, or of what `fills`
    leaves of others. fills: by label what is put at places that are not chosen, which changes nothing. summed: labels
    along which the rule adds up terms, each of its place alone. Along a label that is in none of these nothing may be
    chosen. met: by label what the rule itself chooses along it. unread: operands of which only type or shape matters.
    broadcasts: whether dimensions of size one meet any. moves: whether elements are only moved, so that those not
    chosen may be anything. makes: labels of which the rule makes what the result is chosen by. different: fact and hint
    where masks differ.
    """

    labels: Mapping[str, Sequence[Label]]
    kept: Collection[Label] = ()
    fills: Mapping[Label, Fill] = field(default_factory=lambda: MappingProxyType[Label, Fill]({}))
    summed: Collection[Label] = ()
    met: Mapping[Label, Extent] = field(default_factory=lambda: MappingProxyType[Label, Extent]({}))
    unread: Collection[str] = ()
    broadcasts: bool = True
    moves: bool = False
    makes: Collection[Label] = ()
    different: tuple[str, str] = DIFFERENT, AGREE

    def extents(self, operands: Mapping[str, Operand]) -> dict[Label, Extent]:
        """What is chosen, by label. Raises ImportFailure where it is not said how an operand takes part, where
        different masks choose what meets, and where something is chosen along what may not be."""
        found = dict(self.met)
        for name, operand in operands.items():
            if name in self.unread:
                continue
            if len(self.labels.get(name, ())) != rank_of(operand) or name not in self.labels:
                raise refused(f"has no rule that says how its operand '{name}' takes part in what a mask chooses")
            for label, (extent, _) in zip(self.labels[name], dimensions(operand), strict=True):
                if extent is not None and found.setdefault(label, extent) != extent:
                    raise refused(*self.different)
        for label in found:
            if not any(label in each for each in (self.kept, self.fills, self.summed, self.met)):
                raise refused(ALONG_CHOSEN)
        self._check_others(operands, found)
        return found

    def _check_others(self, operands: Mapping[str, Operand], found: Mapping[Label, Extent]) -> None:
        """Raises ImportFailure where all elements of one operand meet some of another's."""
        for name, operand in operands.items():
            for label, (extent, size) in zip(self.labels.get(name, ()), dimensions(operand), strict=False):
                is_one = self.broadcasts and size == 1
                if extent is None and label in found and not is_one and name not in self.unread:
                    raise refused(*self.different)

    def whole(self, name: str, operand: Operand) -> Tensor:
        """The whole tensor of an operand: what is not chosen does not change a result."""
        if not isinstance(operand, Chosen):
            return operand
        if self.moves or name in self.unread:
            return operand.tensor
        labels = self.labels[name]
        values = {dim: self.fills[labels[dim]] for dim in operand.dims if labels[dim] in self.fills}
        dtype = operand.tensor.dtype
        return operand.with_values({dim: each(dtype) if callable(each) else each for dim, each in values.items()})


Takes: TypeAlias = Callable[[Any], Parts]
# What a rule says before it says anything: whatever is chosen is refused.
NOTHING_SAID = Parts({})


def rank_of(operand: Operand) -> int:
    """How many dimensions it has."""
    return operand.tensor.dim() if isinstance(operand, Chosen) else operand.dim()


def dimensions(operand: Operand) -> list[tuple[Extent | None, int]]:
    """By dimension what is chosen along it, and how many places it has. Where the number is fixed all are chosen, or
    the loss is NaN."""
    if not isinstance(operand, Chosen):
        return [(None, size) for size in operand.shape]
    own = zip(operand.extents, operand.sizes, operand.tensor.shape, strict=True)
    return [(None if isinstance(size, int) else extent, whole) for extent, size, whole in own]


def from_last(operands: Mapping[str, Operand], closed: Collection[Label] = (), **options: Any) -> Parts:
    """Those of operands that broadcast: labels count from the last dimension, -1. Along those not `closed` each place
    is computed by itself."""
    labels = {name: range(-rank_of(each), 0) for name, each in operands.items()}
    every = {label for each in labels.values() for label in each}
    return Parts(labels, every - set(closed), **options)


def apart(operands: Mapping[str, Operand], names: Collection[str]) -> dict[str, list[Label]]:
    """Labels of dimensions that meet none."""
    return {name: [(name, dim) for dim in range(rank_of(operands[name]))] for name in names if name in operands}
