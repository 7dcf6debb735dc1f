"""Cheap values made again by each operation that reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dmc._mlir import ir
from dmc.analysis.kernels.cheap import cheap_reads, is_cheap
from dmc.analysis.storage.pieces import RESHAPES
from dmc.dialect.labels import in_action_of
from dmc.dialect.plan import type_bytes
from dmc.passes.shared.step import is_loop

# Smaller values are not worth considering.
_LEAST_BYTES = 1 << 16
# The roots may exceed the value by this share: weights and statistics in addition to a large tensor.
_SLACK = 16

Roots = frozenset[ir.Value]


def give_each_reader_its_own(block: ir.Block, sums: Collection[ir.Value] = ()) -> None:
    """Rematerialises cheap values for each operation that reads them, where that reads no more memory.

    Cheap are also values computed from cheap ones, as long as the tensors at the roots take no more bytes than the
    value. sums: of these each reader makes its own in any case.
    """
    ops = [view.operation for view in block.operations]
    roots: dict[ir.Value, Roots] = {}
    for op in ops:
        for result in op.results:
            roots[result] = _roots(op, result, roots)
    # Last first: a rematerialised value adds uses of its operands.
    for op in reversed(ops):
        is_made = any(result in sums or result not in roots[result] for result in op.results)
        if is_made and _is_cheap(op):
            _replace(op, block)


def only_loops_read(value: ir.Value) -> bool:
    """Whether all that reads a value can do without it in memory."""
    block = value.owner.operation.block
    return all(_can_compute(reader, block) for reader, _, _ in _uses(value))


def _roots(op: ir.Operation, result: ir.Value, known: Mapping[ir.Value, Roots]) -> Roots:
    """The tensors in memory from which a value is cheaply computed, or the value itself where it is stored.

    known: the roots of all earlier values.
    """
    if op.name in RESHAPES:
        return known.get(op.operands[0], frozenset((op.operands[0],)))
    itself = frozenset((result,))
    if not _is_cheap(op):
        return itself
    found = frozenset().union(*(known.get(value, frozenset((value,))) for value in cheap_reads(op)))
    made = type_bytes(result.type)
    if not all(isinstance(value.type, ir.RankedTensorType) for value in found):
        return itself
    return found if sum(type_bytes(value.type) for value in found) <= made + made // _SLACK else itself


def _is_cheap(op: ir.Operation) -> bool:
    """Whether an operation cheaply computes one tensor worth considering."""
    return is_cheap(op) and type_bytes(op.results[0].type) >= _LEAST_BYTES


Path = tuple[ir.Operation, ...]


def _replace(op: ir.Operation, block: ir.Block) -> None:
    uses = list(_uses(op.results[0]))
    readers = {reader for reader, _, _ in uses}
    if len(readers) < 2 or not all(_can_compute(each, block) for each in readers):
        return
    for reader in readers:
        with ir.InsertionPoint(reader):
            new = op.clone()
            new.location = in_action_of(op.location, reader)
            for _, index, path in (use for use in uses if use[0] == reader):
                reader.operands[index] = _reshaped(new, path)
    for view in reversed(dict.fromkeys(each for _, _, path in uses for each in path)):
        view.erase()
    op.erase()


def _uses(value: ir.Value, path: Path = ()) -> Iterator[tuple[ir.Operation, int, Path]]:
    """The operations that read a value, their operand index, and the reshapes in between, in order."""
    for use in value.uses:
        owner = use.owner.operation
        if owner.name in RESHAPES:
            yield from _uses(owner.results[0], (*path, owner))
        else:
            yield owner, use.operand_number, path


def _can_compute(reader: ir.Operation, block: ir.Block) -> bool:
    """Whether a reader can do without the value in memory."""
    return is_loop(reader) and reader.block == block


def _reshaped(op: ir.Operation, path: Path) -> ir.Value:
    value = op.results[0]
    for view in path:
        copy = view.clone()
        copy.operands[0] = value
        value = copy.results[0]
    return value
