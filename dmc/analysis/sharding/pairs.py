"""The layers that Megatron splits, found by what the forward pass computes, whatever they are called.

A pair (Shoeybi et al. 2019, arXiv:1909.08053, section 3) is a product with a weight that can be computed in parts along
the dimension over which it sums, the row-parallel layer, and the products behind it whose columns are these parts: the
layers of an MLP's hidden units, or of queries, keys and values, whose units are heads. Between them nothing needs to
be moved: each operation is split along a loop (`dmc.analysis.loops`), and nothing else of the forward pass reads what
is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from dmc._mlir import ir
from dmc.analysis.loops.composites import meant_loops
from dmc.analysis.loops.loops import SUM, Loops
from dmc.analysis.loops.rules import COMPOSITE, loops_of
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding.forward import Forward
from dmc.composites import LOSS
from dmc.mesh import Mesh
from dmc.placement.placement import Placement
from dmc.step_function import Port

# A dimension of a parameter, and the number of blocks side by side in it of which each is split.
Cut = tuple[int, int]
Waiting = list[tuple[ir.Value, Placement]]


@dataclass(frozen=True)
class Vocabulary:
    """The classes of a cross entropy that are tokens: as many as an embedding has rows.

    cuts: of the head and of the embeddings. module: of the logits.
    """

    cuts: Mapping[str, Cut]
    module: str


def pairs_of(forward: Forward, mesh: Mesh) -> dict[str, Cut]:
    """The parameters of all pairs that split into equal parts over a mesh of one axis, in the order of the products.

    A layer is in one pair: of a chain of products, each second one is row-parallel. Linear in the operations between
    the two layers of a pair, times the number of layers.
    """
    possible = [region for op in _products(forward) if (region := _Region(forward, mesh)).row(op)]
    related = _Relatives.of(possible)
    closed = [region for region in possible if region.is_closed(_Split.of(related.to(region)))]
    # A layer beside which a product of low rank is added, as LoRA does, rather than the two matrices of that.
    closed.sort(key=_Region.elements, reverse=True)
    chosen, count = _compatible([*closed, *possible]), 0
    # Several pairs may read one value in the same parts, such as a bias by the distance of positions.
    while len(chosen) != count:
        count, split = len(chosen), _Split.of(chosen)
        chosen = [region for region in chosen if region.is_closed(split)]
    return {name: cut for region in possible if region in chosen for name, cut in region.cuts().items()}


def vocabulary_of(forward: Forward, mesh: Mesh) -> Vocabulary | None:
    """The vocabulary; None where no cross entropy has tokens as classes."""
    tables = {table.name: ir.RankedTensorType(table.type).shape[0] for table in forward.tables()}
    for op in forward.composites(LOSS):
        logits = op.operands[0]
        tokens = ir.RankedTensorType(logits.type).shape[-1]
        if tokens not in tables.values():
            continue
        region = _Region(forward, mesh)
        placement = Placement([*[()] * (ir.RankedTensorType(logits.type).rank - 1), mesh.axes])
        if region.grow([(logits, placement)]) and region.columns:
            rows = {name: (0, 1) for name, size in tables.items() if size == tokens}
            return Vocabulary({**region.cuts(), **rows}, forward.module(region.columns[-1]))
    return None


def _products(forward: Forward) -> Iterator[ir.Operation]:
    """The products of a value with a matrix of the model, in the order of the forward pass."""
    for op in forward.ops:
        weight = forward.weight(op) if len(op.results) == 1 and op.name.startswith("linalg.") else None
        if weight is not None and _summed(loops_of(op), weight) is not None:
            yield op


def _summed(loops: Loops, weight: int) -> int | None:
    """The loop over which a product of an operand with another, the weight, sums."""
    for i, loop in enumerate(loops.loops):
        factors = [operand for operand, dims in loops.read() if (i,) in dims and operand not in loops.carried]
        if loop.kind == SUM and weight in factors and len(factors) == 2:
            return i
    return None


def _compatible(regions: Iterable[_Region]) -> list[_Region]:
    """Drops pairs that conflict with an earlier pair: they split a value in another way."""
    taken: dict[ir.Value, Placement] = {}
    found: list[_Region] = []
    for region in dict.fromkeys(regions):
        if all(taken.get(value, placement) == placement for value, placement in region.placements.items()):
            taken |= region.placements
            found.append(region)
    return found


@dataclass(eq=False)
class _Region:
    """What must be split so that a value is: back from it to weights, and no further than a product with one.

    columns: these products. reader: the result of the row-parallel product that reads the value.
    """

    forward: Forward
    mesh: Mesh
    placements: dict[ir.Value, Placement] = field(default_factory=dict)
    columns: list[ir.Operation] = field(default_factory=list)
    reader: ir.Value | None = None

    @property
    def axis(self) -> str:
        """The axis of the mesh."""
        return self.mesh.axes[0]

    def row(self, product: ir.Operation) -> bool:
        """Whether a product can be row-parallel."""
        loops, weight = loops_of(product), self.forward.weight(product)
        summed = None if weight is None else _summed(loops, weight)
        split = None if summed is None else loops.unsplit(self.mesh).with_axis(summed, self.axis)
        if split is None or not loops.fits(split):
            return False
        self.reader = product.results[0]
        factors = [(product.operands[i], loops.operand(i, split)) for i, _ in loops.read() if i not in loops.carried]
        return self.grow(factors) and bool(self.columns)

    def grow(self, waiting: Waiting) -> bool:
        """Whether these values can be split so, without moving anything."""
        while waiting:
            value, placement = waiting.pop()
            if self.axis not in placement.axes or is_splat(value):
                continue
            if value in self.placements:
                if self.placements[value] != placement:
                    return False
                continue
            self.placements[value] = placement
            further = self._behind(value, placement)
            if further is None:
                return False
            waiting += further
        return True

    def made(self) -> list[ir.Value]:
        """The values that are split, but for tensors of the model."""
        return [value for value in self.placements if not self.forward.is_of_state(value)]

    def elements(self) -> int:
        """Of all parameters that are split."""
        return sum(prod(ir.RankedTensorType(port.type).shape) for port in self._parameters())

    def is_closed(self, split: _Split) -> bool:
        """Whether what the forward pass reads of the region's values is read in parts."""
        return all(split.has(user) for value in self.made() for user in self.forward.users(value))

    def cuts(self) -> dict[str, Cut]:
        """The parameters that are split."""
        found: dict[str, Cut] = {}
        for value, placement in self.placements.items():
            if (port := self.forward.parameter(value)) is not None:
                dim = next(i for i, axes in enumerate(placement.dims) if axes)
                found[port.name] = (dim, placement.blocks_of(self.axis))
        return found

    def _parameters(self) -> list[Port]:
        ports = (self.forward.parameter(value) for value in self.placements)
        return [port for port in ports if port is not None]

    def _behind(self, value: ir.Value, placement: Placement) -> Waiting | None:
        """The operands from which the parts of a value are computed; None if it is not computed in parts."""
        if isinstance(value.owner, ir.Block):
            return [] if self.forward.is_of_state(value) else None
        op = value.owner.operation
        if not any(isinstance(operand.type, ir.RankedTensorType) for operand in op.operands):
            return []  # A constant: any part of it is there.
        loops = (meant_loops(op) if op.name == COMPOSITE else None) or loops_of(op)
        dims = loops.results[list(op.results).index(value)]
        split = loops.extended(loops.unsplit(self.mesh), dims, placement, self.axis)
        if split is None or not loops.fits(split):
            return None
        operands = {i: loops.operand(i, split) for i, _ in loops.read()}
        weight = self.forward.weight(op)
        if weight is not None and _summed(loops, weight) is not None and self.axis in operands[weight].axes:
            self.columns.append(op)
        return [(op.operands[i], each) for i, each in operands.items()]


@dataclass(frozen=True)
class _Relatives:
    """Regions that split a value in the same way, for several row-parallel products: each is closed by the others.

    readers: by what is split.
    """

    readers: Mapping[tuple[ir.Value, Placement], Sequence[_Region]]

    @staticmethod
    def of(regions: Sequence[_Region]) -> _Relatives:
        found: dict[tuple[ir.Value, Placement], list[_Region]] = {}
        for region in regions:
            for value in region.made():
                found.setdefault((value, region.placements[value]), []).append(region)
        return _Relatives(found)

    def to(self, region: _Region) -> list[_Region]:
        """The region, and others that share a value with it and split none in another way."""
        shared = [self.readers[value, region.placements[value]] for value in region.made()]
        return _compatible([region, *(other for some in shared for other in some)])


@dataclass(frozen=True)
class _Split:
    """What several regions split. readers: the results of their row-parallel products."""

    values: frozenset[ir.Value]
    readers: frozenset[ir.Value]

    @staticmethod
    def of(regions: Sequence[_Region]) -> _Split:
        values = frozenset(value for region in regions for value in region.placements)
        return _Split(values, frozenset(region.reader for region in regions if region.reader is not None))

    def has(self, op: ir.Operation) -> bool:
        """Whether an operation is split: it makes parts, or sums over them."""
        return any(result in self.values or result in self.readers for result in op.results)
