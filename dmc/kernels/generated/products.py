"""Sums of products of two operands: which loops are rows, columns, batches and depth of a matrix product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dmc._mlir import ir
from dmc.dtypes import is_floating
from dmc.kernels.generated.index import ZERO, Index, delinearise
from dmc.kernels.generated.operations import Places, at, dims_in, dims_used, maps_of
from dmc.kernels.generated.reducing import Reduction

# Smaller products do not use tensor cores.
_LEAST_SIDE, _LEAST_DEPTH = 4, 8


@dataclass(frozen=True)
class Product:
    """A reduction that is a matrix product. first, second: the arguments of its body that it multiplies.

    batches, rows, columns, depth: the loops of each kind; rows are those of the first factor.
    """

    reduction: Reduction
    first: int
    second: int
    batches: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]

    @staticmethod
    def of(reduction: Reduction) -> Product | None:
        """The product that a reduction computes; None for one without a product, or a small one."""
        factors = _factors(reduction)
        if factors is None:
            return None
        maps = maps_of(reduction.value.owner)
        kinds: dict[str, list[int]] = {"batches": [], "rows": [], "columns": [], "depth": []}
        first, second = (dims_used(maps[factor]) for factor in factors)
        for dim in _order(reduction):
            in_first, in_second = dim in first, dim in second
            if reduction.loops.sizes[dim] == 1:
                continue
            if not (in_first or in_second) or (reduction.loops.reduced[dim] and not (in_first and in_second)):
                return None
            kind = "depth" if reduction.loops.reduced[dim] else "batches" if in_first and in_second else "rows"
            kinds["columns" if kind == "rows" and in_second else kind].append(dim)
        made = Product(reduction, *factors, **{kind: tuple(dims) for kind, dims in kinds.items()})
        small = min(made.size("rows"), made.size("columns")) < _LEAST_SIDE or made.size("depth") < _LEAST_DEPTH
        return None if small else made

    def size(self, kind: str) -> int:
        """The number of rows, columns, …."""
        return math.prod(self.reduction.loops.sizes[dim] for dim in getattr(self, kind))

    def loops(self, batch: Index, row: Index, column: Index, inner: Index = ZERO) -> Places:
        """The loops by the indices of batch, row, column and depth."""
        places = [ZERO] * len(self.reduction.loops.sizes)
        for number, dims in ((batch, self.batches), (row, self.rows), (column, self.columns), (inner, self.depth)):
            sizes = [self.reduction.loops.sizes[dim] for dim in dims]
            for dim, place in zip(dims, delinearise(number, sizes), strict=True):
                places[dim] = place
        return tuple(places)

    def result_dims(self) -> list[int | None]:
        """The loop of each result dimension; None for size 1."""
        places = maps_of(self.reduction.value.owner)[-1].results
        return [place.position if isinstance(place, ir.AffineDimExpr) else None for place in places]

    def factor(self, number: int, loops: Places) -> tuple[Any, Places]:
        """An operand of the product, and its indices."""
        op = self.reduction.value.owner
        return op.operands[number], at(maps_of(op)[number], loops)


def _order(reduction: Reduction) -> list[int]:
    """The loops in the order of the result's dimensions, then the reduced ones."""
    op = reduction.value.owner
    kept = dims_in(maps_of(op)[-1])
    return [*kept, *(dim for dim in range(len(reduction.loops.sizes)) if dim not in kept)]


def _factors(reduction: Reduction) -> tuple[int, int] | None:
    """The indices of the two arguments, possibly widened, whose product is summed."""
    part = reduction.part
    if reduction.name != "arith.addf" or isinstance(part.owner, ir.Block) or part.owner.name != "arith.mulf":
        return None
    factors = [_unwidened(each) for each in part.owner.operands]
    if not all(isinstance(each.owner, ir.Block) for each in factors):
        return None
    first, second = (ir.BlockArgument(each).arg_number for each in factors)
    types = {str(each.type) for each in factors}
    return (first, second) if first != second and all(map(is_floating, types)) else None


def _unwidened(value: Any) -> Any:
    while not isinstance(value.owner, ir.Block) and value.owner.name == "arith.extf":
        value = value.owner.operands[0]
    return value
