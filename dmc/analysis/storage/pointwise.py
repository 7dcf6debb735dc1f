"""Which results of a computation may be written in place of which operands.

A result may replace an operand if element k of the operand is only read to compute element k of the result. Then,
however the loops of the computation are tiled, ordered and fused, an element is overwritten only after its last read:
all its reads are needed to compute the new element.

A whole composite has no such loops: what the code chosen for it allows holds as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.storage.pieces import RESHAPES
from dmc.dialect.plan import type_bytes
from dmc.walk import is_parallel, reads

Pairs = frozenset[tuple[int, int]]
# On a kernel's body: the pairs [operand, result] that its chosen code allows; absent before code is chosen.
IN_PLACE = "dm.in_place"


def in_place_pairs(function: func.FuncOp) -> Pairs:
    """The pairs (operand, result), as indices, where the result may replace the operand.

    Both have the same number of bytes and elements. Everything computed from the operand, directly or not, is
    elementwise, and all its readers contribute to the result.
    """
    (block,) = function.body.blocks
    *body, terminator = [view.operation for view in block.operations]
    if is_whole_composite(function):
        return _allowed(function, ())
    read = [_Reader.of(op) for op in body]
    pairs: set[tuple[int, int]] = set()
    for index, argument in enumerate(block.arguments):
        traced = _trace(argument, read)
        if traced is None or not traced.readers:
            continue
        for number, value in enumerate(terminator.operands):
            # The operand itself, passed through, is not a new value.
            if traced.reached.get(value, 0) == traced.readers and _alike(argument.type, value.type):
                pairs.add((index, number))
    return frozenset(pairs) & _allowed(function, pairs)


def is_whole_composite(function: func.FuncOp) -> bool:
    """Whether a kernel's body is a composite that an implementation computes as a whole."""
    return any(isinstance(op, dm.CompositeOp) for op in function.entry_block.operations)


def _allowed(function: func.FuncOp, pairs: Iterable[tuple[int, int]]) -> Pairs:
    """Code may recompute a value, and read an operand again after a result was written."""
    attributes = function.operation.attributes
    if IN_PLACE not in attributes:
        return frozenset(pairs)
    return frozenset((pair[0], pair[1]) for pair in map(list, attributes[IN_PLACE]))


@dataclass(frozen=True)
class _Trace:
    """The values computed elementwise from an operand.

    reached: for each value, the ops that read the operand to compute it, one bit each. readers: all these ops.
    """

    reached: Mapping[ir.Value, int]
    readers: int


@dataclass(frozen=True)
class _Reader:
    """An operation: what it reads, and for each result, from which of these it is computed element by element.

    apart: what it reads in any other way.
    """

    op: ir.Operation
    reads: Sequence[ir.Value]
    sources: Sequence[Sequence[ir.Value]]
    apart: frozenset[ir.Value]

    @staticmethod
    def of(op: ir.Operation) -> _Reader:
        """An output of a `linalg.generic` whose old elements are unused is not read."""
        if op.name == "linalg.generic":
            return _generic(op)
        values = list(reads(op))
        if op.name in RESHAPES or (op.name.partition(".")[0] in ("arith", "math") and not len(op.regions)):
            return _Reader(op, values, [values for _ in op.results], frozenset())
        return _Reader(op, values, [[] for _ in op.results], frozenset(values))


def _generic(op: ir.Operation) -> _Reader:
    (block,) = op.regions[0].blocks
    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    operands = zip(block.arguments, op.operands, maps, strict=True)
    used = [(argument, operand, read) for argument, operand, read in operands if _is_used(argument)]
    inside = [value for inner in block.operations for value in reads(inner)]
    values = [operand for _, operand, _ in used] + inside
    written = maps[len(maps) - len(op.results)]
    # Every iteration has its own index, the same in all results.
    has_index = written.is_permutation and all(each == written for each in maps[len(maps) - len(op.results) :])
    if not has_index or not is_parallel(op):
        return _Reader(op, values, [[] for _ in op.results], frozenset(values))
    inputs = {argument: operand for argument, operand, read in used if read == written}
    apart = {operand for _, operand, read in used if read != written}
    return _Reader(op, values, _inputs_of_results(block, inputs), frozenset(apart.union(inside)))


def _trace(argument: ir.Value, body: Iterable[_Reader]) -> _Trace | None:
    """None if anything computed from `argument` is not elementwise."""
    reached: dict[ir.Value, int] = {argument: 0}
    originals = {argument}  # The operand and reshapes of it.
    readers = 0
    for position, each in enumerate(body):
        taken = [value for value in each.reads if value in reached]
        if not taken:
            continue
        if each.op.name in RESHAPES:
            reached[each.op.results[0]] = reached[taken[0]]
            originals |= {each.op.results[0]} if taken[0] in originals else set()
            continue
        if not each.apart.isdisjoint(taken):
            return None
        bit = 1 << position
        readers |= bit if originals.intersection(taken) else 0
        for result, sources in zip(each.op.results, each.sources, strict=True):
            if values := [value for value in sources if value in reached]:
                reached[result] = _union(reached[value] | (bit if value in originals else 0) for value in values)
    return _Trace(reached, readers)


def _inputs_of_results(block: ir.Block, inputs: Mapping[ir.Value, ir.Value]) -> list[list[ir.Value]]:
    """For each result, the operands from which it is computed, among `inputs` (block argument to operand)."""
    # For each value, the inputs from which it is computed, one bit each.
    reached = {argument: 1 << number for number, argument in enumerate(inputs)}
    *body, terminator = [view.operation for view in block.operations]
    for op in body:
        union = _union(reached.get(value, 0) for value in reads(op))
        reached.update((result, union) for result in op.results)
    found = [reached.get(value, 0) for value in terminator.operands]
    return [[operand for number, operand in enumerate(inputs.values()) if bits >> number & 1] for bits in found]


def _is_used(value: ir.Value) -> bool:
    return any(True for _ in value.uses)


def _alike(one: ir.Type, other: ir.Type) -> bool:
    sizes = [(prod(ir.RankedTensorType(each).shape), type_bytes(each)) for each in (one, other)]
    return sizes[0] == sizes[1]


def _union(sets: Iterable[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union
