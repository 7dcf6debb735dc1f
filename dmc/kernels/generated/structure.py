"""The non-elementwise parts of a region: reductions, and products of two operands."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dmc._mlir import ir
from dmc.kernels.bits import packed_width
from dmc.kernels.generated.index import Index, delinearise, linearise
from dmc.kernels.generated.operations import Places, dims_in, is_parallel, maps_of, slice_of
from dmc.kernels.generated.value import Declined

# A combiner of two values: Triton's reduction, its binary form, and its neutral element.
_INFINITY = math.inf


@dataclass(frozen=True)
class Combiner:
    """reduce: the function for `tl.reduce`, empty for a sum. join: combines two values."""

    reduce: str
    join: str
    neutral: float


COMBINERS = {
    **dict.fromkeys(("arith.addf", "arith.addi"), Combiner("", "{} + {}", 0)),
    **dict.fromkeys(("arith.mulf", "arith.muli"), Combiner("functions.multiply", "{} * {}", 1)),
    "arith.maximumf": Combiner("functions.maximum", "functions.maximum({}, {})", -_INFINITY),
    "arith.minimumf": Combiner("functions.minimum", "functions.minimum({}, {})", _INFINITY),
    "arith.maxnumf": Combiner("functions.maximum_number", "tl.maximum({}, {})", -_INFINITY),
    "arith.minnumf": Combiner("functions.minimum_number", "tl.minimum({}, {})", _INFINITY),
    "arith.maxsi": Combiner("functions.maximum_number", "tl.maximum({}, {})", -_INFINITY),
    "arith.minsi": Combiner("functions.minimum_number", "tl.minimum({}, {})", _INFINITY),
    "arith.andi": Combiner("functions.both", "{} & {}", -1),
    "arith.ori": Combiner("functions.either", "{} | {}", 0),
}


@dataclass(frozen=True)
class Loops:
    """The loops of an operation: their sizes, and those missing in its results."""

    sizes: tuple[int, ...]
    reduced: tuple[bool, ...]

    @staticmethod
    def of(op: Any) -> Loops:
        """The loops of a `linalg` operation of static shape."""
        maps = maps_of(op)
        sizes = [1] * maps[0].n_dims
        for operand, each in zip(op.operands, maps, strict=True):
            shape = operand.type.shape if isinstance(operand.type, ir.RankedTensorType) else ()
            for place, size in zip(each.results, shape, strict=False):
                if isinstance(place, ir.AffineDimExpr):
                    sizes[place.position] = size
        kept = {dim for each in maps[-len(op.results) :] for dim in dims_in(each)}
        return Loops(tuple(sizes), tuple(i not in kept for i in range(len(sizes))))

    @property
    def kept(self) -> int:
        """The number of results."""
        return math.prod(size for size, gone in zip(self.sizes, self.reduced, strict=True) if not gone)

    @property
    def depth(self) -> int:
        """The number of values per result."""
        return math.prod(size for size, gone in zip(self.sizes, self.reduced, strict=True) if gone)

    @cached_property
    def signature(self) -> tuple[tuple[bool, int], ...]:
        """The loops with neighbours of one kind merged: equal for operations that can share loops."""
        merged: list[tuple[bool, int]] = []
        for size, gone in zip(self.sizes, self.reduced, strict=True):
            if size == 1:
                continue
            if merged and merged[-1][0] == gone:
                merged[-1] = gone, merged[-1][1] * size
            else:
                merged.append((gone, size))
        return tuple(merged)

    @property
    def is_by_rows(self) -> bool:
        """Whether the values of one result are contiguous."""
        return [gone for gone, _ in self.signature] in ([False, True], [True])

    def number(self, kept: Index, reduced: Index) -> Index:
        """The linear index of an iteration in loop order."""
        return linearise(self.places(kept, reduced), self.sizes)

    def places(self, kept: Index, reduced: Index) -> Places:
        """One iteration, by the index of its result and its index among those of this result."""
        sizes = list(zip(self.sizes, self.reduced, strict=True))
        of_kept = iter(delinearise(kept, [size for size, gone in sizes if not gone]))
        of_reduced = iter(delinearise(reduced, [size for size, gone in sizes if gone]))
        return tuple(next(of_reduced) if gone else next(of_kept) for gone in self.reduced)


def is_heavy(op: Any) -> bool:
    """Whether an operation reduces many elements to one; each thread packs words of its own."""
    if not op.name.startswith("linalg.") or not len(op.regions) or op.name in ("linalg.fill", "linalg.transpose"):
        return False
    if op.name == "linalg.generic" and (is_parallel(op) or packed_width(op) is not None):
        return False
    return op.name != "linalg.broadcast"


def reached(roots: Iterable[Any], memory: Iterable[Any]) -> list[Any]:
    """The values on which `roots` depend, including these, in order, except those in memory."""
    at_hand, seen = set(memory), set[Any]()
    ordered: list[Any] = []
    stack = [(root, False) for root in roots]
    while stack:
        value, is_done = stack.pop()
        if is_done:
            ordered.append(value)
        elif value not in at_hand and value not in seen and not isinstance(value.owner, ir.Block):
            seen.add(value)
            stack += [(value, True), *((each, False) for each in reads(value))]
    return ordered


def heavy_values(roots: Iterable[Any], memory: Iterable[Any]) -> list[Any]:
    """The results of reductions and products, in order, on which `roots` depend."""
    return [value for value in reached(roots, memory) if is_heavy(value.owner)]


def reads(value: Any) -> list[Any]:
    """The outside values that the producer of `value` reads, as far as `value` depends on them; each once."""
    op = value.owner
    regions = list(op.regions)
    if not op.name.startswith("linalg.") or not regions:
        inner = [each for region in regions for block in region for view in block for each in view.operation.operands]
        return list(dict.fromkeys(each for each in (*op.operands, *inner) if not _is_inside(each, op)))
    block = regions[0].blocks[0]
    *body, terminator = [view.operation for view in block.operations]
    needed = slice_of(terminator.operands[list(op.results).index(value)], body)
    arguments = [op.operands[i] for i, argument in enumerate(block.arguments) if argument in needed]
    return list(dict.fromkeys([*arguments, *(each for each in needed if not _is_inside(each, op))]))


def _is_inside(value: Any, op: Any) -> bool:
    """Whether a value is defined in a region of `op`."""
    return (value.owner.owner if isinstance(value.owner, ir.Block) else value.owner.parent) == op


def combined(value: Any) -> tuple[str, Any]:
    """How the producer of `value` combines what:

    the name of an operation and a value of its body. Raises Declined for a body that uses the accumulator in any other
    way.
    """
    op = value.owner
    block = op.regions[0].blocks[0]
    *inner, terminator = [view.operation for view in block.operations]
    number = list(op.results).index(value)
    yielded = terminator.operands[number]
    output = block.arguments[len(op.operands) - len(op.results) + number]
    made = yielded.owner
    if isinstance(made, ir.Block) or made.name not in COMBINERS or output not in list(made.operands):
        raise Declined(f"a reduction other than sum, product or extremum ({op.name})")
    first, second = made.operands
    other = second if first == output else first
    if output in slice_of(other, inner):
        raise Declined("a reduction in which order matters")
    return made.name, other
