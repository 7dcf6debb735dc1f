"""Structured operations of `linalg` in numpy: all iterations at once, as far as their bodies allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmc._mlir import ir, linalg
from dmc.dtypes import Array
from dmc.interpreter.scalars import REDUCTIONS, dtype_of
from dmc.walk import terminator_of

Values = Mapping[Any, Any]
Evaluate = Callable[[Any, Values], list[Any]]
SUMS_OF_PRODUCTS = {("arith.mulf", "arith.addf"), ("arith.muli", "arith.addi")}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ir.AffineAddExpr: lambda a, b: a + b,
    ir.AffineMulExpr: lambda a, b: a * b,
    ir.AffineModExpr: lambda a, b: a % b,
    ir.AffineFloorDivExpr: lambda a, b: a // b,
    ir.AffineCeilDivExpr: lambda a, b: -(-a // b),
}


def structured(op: Any, values: Values, evaluate: Evaluate) -> list[Array]:
    """The results of a `linalg.generic`, or of a named operation that means one. `evaluate` computes its body's ops."""
    loops = _Loops.of(op, values, evaluate)
    if not loops.reduced:
        return loops.write(loops.body(loops.arrays(), loops.grid))
    if loops.is_sum_of_products():
        return loops.contract()
    if all(loops.reductions()):
        return loops.reduce()
    return loops.in_order()


@dataclass(frozen=True)
class _Loops:
    """sizes: of each loop. maps: for each operand, its index as affine expressions of the loops."""

    op: Any
    values: Values
    evaluate: Evaluate
    sizes: tuple[int, ...]
    maps: tuple[tuple[Any, ...], ...]
    # By loop, its indices along their own axis.
    grid: tuple[Array, ...]

    @staticmethod
    def of(op: Any, values: Values, evaluate: Evaluate) -> _Loops:
        maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op)]
        sizes: dict[int, int] = {}
        for operand, map_ in zip(op.operands, maps, strict=True):
            for place, size in zip(map_.results, np.shape(values[operand]), strict=True):
                if isinstance(place, ir.AffineDimExpr):
                    assert sizes.setdefault(place.position, size) == size, "operands of different sizes"
        count = maps[0].n_dims
        assert sorted(sizes) == list(range(count)), "a loop whose size no operand determines"
        ordered = tuple(sizes[i] for i in range(count))
        grid = tuple(np.arange(n).reshape([-1 if i == j else 1 for j in range(count)]) for i, n in enumerate(ordered))
        return _Loops(op, values, evaluate, ordered, tuple(tuple(map_.results) for map_ in maps), grid)

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self.op.operands) - len(self.op.results)

    @property
    def block(self) -> Any:
        return self.op.regions[0].blocks[0]

    @property
    def reduced(self) -> tuple[int, ...]:
        """The loops that do not occur in results."""
        kept = {loop for places in self.maps[self.inputs :] for loop in _loops_in(places)}
        return tuple(i for i in range(len(self.sizes)) if i not in kept)

    def arrays(self) -> list[Array]:
        """Each operand for every iteration; of size 1 along the loops on which it does not depend."""
        whole = [np.asarray(self.values[operand]) for operand in self.op.operands]
        places = [tuple(_at(place, self.grid) for place in map_) for map_ in self.maps]
        # A map without loops gives a scalar, which depends on none.
        read = [np.asarray(array[each]) for array, each in zip(whole, places, strict=True)]
        return [array if array.ndim else array.reshape([1] * len(self.sizes)) for array in read]

    def body(self, arguments: Sequence[Any], grid: Sequence[Array]) -> list[Any]:
        """What the body yields for the iterations of `grid`; `arguments` are its operands there."""
        local: dict[Any, Any] = {**self.values, **dict(zip(self.block.arguments, arguments, strict=True))}
        *ops, terminator = [view.operation for view in self.block.operations]
        for op in ops:
            is_index = op.name == "linalg.index"
            given = [grid[op.attributes["dim"].value]] if is_index else self.evaluate(op, local)
            local.update(zip(op.results, given, strict=True))
        return [local[operand] for operand in terminator.operands]

    def write(self, yielded: Sequence[Any]) -> list[Array]:
        """Reorders from loops to the results' dimensions; a reduced loop has size 1."""
        shape = [1 if i in self.reduced else size for i, size in enumerate(self.sizes)]
        written: list[Array] = []
        for value, places, result in zip(yielded, self.maps[self.inputs :], self.op.results, strict=True):
            # An index that is not a loop is a constant, along a dimension of size 1.
            order = _loops_in(places)
            whole = np.broadcast_to(value, shape).transpose([*order, *self.reduced])
            written.append(whole.reshape(result.type.shape).astype(dtype_of(result.type)))
        return written

    def reductions(self) -> list[Any]:
        """For each result, the operation that reduces the yielded value, if it does nothing else with the output."""
        arguments = list(self.block.arguments)[self.inputs :]
        return [_combined(*pair) for pair in zip(terminator_of(self.block).operands, arguments, strict=True)]

    def reduce(self) -> list[Array]:
        """All iterations at once, then the reduction of the yielded values."""
        ufuncs = [REDUCTIONS[each] for each in self.reductions()]
        types = [dtype_of(result.type) for result in self.op.results]
        neutral = [np.asarray(_neutral(ufunc, type_), type_) for ufunc, type_ in zip(ufuncs, types, strict=True)]
        yielded = self.body([*self.arrays()[: self.inputs], *neutral], self.grid)
        wholes = [np.broadcast_to(each, self.sizes) for each in yielded]
        totals = [ufunc.reduce(each, self.reduced, keepdims=True) for ufunc, each in zip(ufuncs, wholes, strict=True)]
        before = [self.values[operand] for operand in list(self.op.operands)[self.inputs :]]
        both = zip(ufuncs, before, self.write(totals), types, strict=True)
        return [ufunc(old, new).astype(type_) for ufunc, old, new, type_ in both]

    def is_sum_of_products(self) -> bool:
        """Whether the body adds the product of two operands, possibly widened, to the output."""
        if self.inputs != 2 or len(self.op.results) != 1:
            return False
        *factors, output = self.block.arguments
        yielded = terminator_of(self.block).operands[0]
        product = _other(yielded, output)
        if product is None or isinstance(product.owner, ir.Block):
            return False
        if (product.owner.name, yielded.owner.name) not in SUMS_OF_PRODUCTS:
            return False
        return sorted(factors.index(each) for each in map(_uncast, product.owner.operands) if each in factors) == [0, 1]

    def contract(self) -> list[Array]:
        """The sum of products as one contraction, in f32 if the elements are narrower."""
        result = np.dtype(dtype_of(self.op.results[0].type))
        wide = np.dtype(np.float32) if result.kind not in "fiub" or result == np.float16 else result
        operands: list[Any] = []
        for array in self.arrays()[:2]:
            used = [i for i, size in enumerate(array.shape) if size != 1]
            operands += [array.reshape([array.shape[i] for i in used]).astype(wide), used]
        kept = sorted({*operands[1], *operands[3]} - set(self.reduced))
        total = np.asarray(np.einsum(*operands, kept, optimize=True))
        (added,) = self.write([total.reshape([self.sizes[i] if i in kept else 1 for i in range(len(self.sizes))])])
        return [(self.values[self.op.operands[2]].astype(wide) + added.astype(wide)).astype(result)]

    def in_order(self) -> list[Array]:
        """The reduced loops one by one, in order: correct for every body."""
        arrays = self.arrays()
        carried: list[Any] = arrays[self.inputs :]
        for point in np.ndindex(*[self.sizes[i] for i in self.reduced]):
            at = dict(zip(self.reduced, point, strict=True))
            inputs = [_cut(array, at) for array in arrays[: self.inputs]]
            carried = self.body([*inputs, *carried], [_cut(numbers, at) for numbers in self.grid])
        return self.write(carried)


def _loops_in(places: Sequence[Any]) -> list[int]:
    return [place.position for place in places if isinstance(place, ir.AffineDimExpr)]


def _at(place: Any, grid: Sequence[Array]) -> Any:
    if isinstance(place, ir.AffineDimExpr):
        return grid[place.position]
    if isinstance(place, ir.AffineConstantExpr):
        return place.value
    return _BINARY[type(place)](_at(place.lhs, grid), _at(place.rhs, grid))


def _cut(array: Array, at: Mapping[int, int]) -> Array:
    """One iteration of some loops; values independent of a loop have size 1 there."""
    places = [slice(at[i], at[i] + 1) if i in at and size > 1 else slice(None) for i, size in enumerate(array.shape)]
    return array[tuple(places)]


def _combined(yielded: Any, output: Any) -> str | None:
    """The name of the reduction that yields `output` combined with a value independent of it."""
    is_reduction = _other(yielded, output) is not None and yielded.owner.name in REDUCTIONS and str(output.type) != "i1"
    return yielded.owner.name if is_reduction else None


def _other(yielded: Any, output: Any) -> Any:
    """The other operand of the yielded operation, if one is `output` and has no other readers."""
    if isinstance(yielded.owner, ir.Block) or len(list(output.uses)) != 1:
        return None
    operands = list(yielded.owner.operands)
    if len(operands) != 2 or output not in operands:
        return None
    return operands[1 - operands.index(output)]


def _uncast(value: Any) -> Any:
    while not isinstance(value.owner, ir.Block) and value.owner.name == "arith.extf":
        value = value.owner.operands[0]
    return value


def _neutral(ufunc: Any, dtype: Any) -> Any:
    if ufunc in (np.add, np.multiply):
        return int(ufunc is np.multiply)
    sign = -1 if ufunc in (np.maximum, np.fmax) else 1
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max
    return sign * np.inf
