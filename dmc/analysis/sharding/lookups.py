"""Embeddings looked up where the columns of their tables are, if that moves less than gathering the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, is_cast
from dmc.analysis.loops.loops import Split
from dmc.analysis.sharding.choice import Choice, movement_bytes
from dmc.analysis.sharding.decisions import Decision, Ends, key_of, tensor_of
from dmc.mesh import Mesh
from dmc.placement.placement import Placement

_TABLE, _INDEX = 0, 1


def by_columns(decisions: Sequence[Decision], block: ir.Block, ends: Ends, mesh: Mesh) -> tuple[Decision, ...]:
    """The decisions, with lookups in tables that are kept in columns made by all ranks for all of the batch.

    `%rows = embedding(%table, %index)`, the table stored as [[], ["dp"]] and used whole, the index split over dp:
    instead of the table, the index is gathered, and an exchange turns columns of all rows into whole rows of a rank's
    part of the batch, which is where the rows are kept as before. Nothing runs beside either, since all that follows
    reads the rows. Casts to a narrower type, as a head reads a table that it shares, gather what they write, later; any
    other reader of the whole table gathers it for both. In a loop, a table is gathered once: nothing changes.

    block: that of the step, with arguments placed as `ends` says.
    """
    stored = _stored(block, ends)
    readers: dict[ir.Value, list[tuple[Decision, int]]] = {}
    for each in decisions:
        for number, _ in each.loops.read():
            if each.op.operands[number] in stored:
                readers.setdefault(each.op.operands[number], []).append((each, number))
    lookups = {key_of(each.op) for each in decisions if _is_lookup(each.op) and each.op.block == block}
    return tuple(_by_columns(each, stored, readers, mesh) if key_of(each.op) in lookups else each for each in decisions)


def _by_columns(
    decision: Decision,
    stored: Mapping[ir.Value, Placement],
    readers: Mapping[ir.Value, Sequence[tuple[Decision, int]]],
    mesh: Mesh,
) -> Decision:
    table, index = decision.op.operands[_TABLE], decision.op.operands[_INDEX]
    other = _other_split(decision, stored[table], mesh) if table in stored else None
    if other is None or any(_gathers(each, number, stored[table]) for each, number in readers[table]):
        return decision
    loops, made = decision.loops, decision.loops.result(0, other)
    moves = (
        (index, loops.operand(_INDEX, decision.choice.split), loops.operand(_INDEX, other)),
        (key_of(decision.op), made, decision.kept[0]),
    )
    gathered = _bytes(table, stored[table], loops.operand(_TABLE, decision.choice.split), mesh)
    moved = sum(_bytes(value, source, target, mesh) for value, source, target in moves)
    if moved >= gathered:
        return decision
    why = f"its columns are looked up where they are ({moved} B, else {gathered} B)"
    return replace(decision, choice=Choice(other, moved, (*decision.choice.reasons, why), ()), made=(made,))


def _other_split(decision: Decision, stored: Placement, mesh: Mesh) -> Split | None:
    """The split in which a rank looks up the columns that it has; None where it already does, or cannot."""
    columns = stored.dims[1]
    if not columns or stored.dims[0] or stored.partial or decision.kept != decision.made:
        return None
    loops, split = decision.loops, decision.choice.split
    (loop,) = loops.results[0][-1]
    axes = [tuple(axis for axis in each if axis not in columns) for each in split.axes]
    axes[loop] = (*axes[loop], *columns)
    other = Split(mesh, tuple(axes), split.partial, tuple(each for each in split.blocks if each[0] not in columns))
    fits = loops.fits(other) and loops.operand(_TABLE, other) == stored
    return other if fits and loops.operand(_TABLE, split) != stored else None


def _gathers(reader: Decision, number: int, stored: Placement) -> bool:
    """Whether a reader of a table needs another placement of it, in its own type."""
    if _is_lookup(reader.op) or is_cast(reader.op, NARROW):
        return False
    return reader.loops.operand(number, reader.choice.split) != stored


def _is_lookup(op: ir.Operation) -> bool:
    return op.name == dm.CompositeOp.OPERATION_NAME and ir.StringAttr(op.attributes["kind"]).value == "embedding"


def _stored(block: ir.Block, ends: Ends) -> dict[ir.Value, Placement]:
    """The placements of the step's arguments that are used in others than they are stored in."""
    triples = zip(block.arguments, ends.arguments, ends.used, strict=True)
    return {argument: stored for argument, stored, used in triples if stored is not None and stored != used}


def _bytes(value: ir.Value, source: Placement, target: Placement, mesh: Mesh) -> int:
    tensor = tensor_of(value, mesh)
    assert tensor is not None
    return movement_bytes(source, target, tensor)
