"""Embeddings looked up where the columns of their tables are, if less must then move before the step can begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, is_cast
from dmc.analysis.loops.loops import Split
from dmc.analysis.loops.rules import captured
from dmc.analysis.sharding.choice import Choice, movement_bytes
from dmc.analysis.sharding.decisions import Decision, Ends, key_of, tensor_of
from dmc.dialect.kinds import traits_of
from dmc.mesh import Mesh
from dmc.placement.placement import Placement

_TABLE, _INDEX = 0, 1


def by_columns(decisions: Sequence[Decision], block: ir.Block, ends: Ends, mesh: Mesh) -> tuple[Decision, ...]:
    """The decisions, with lookups in tables that are kept in columns made by all ranks for all of the batch.

    `%rows = embedding(%table, %index)`, the table stored as [[], ["dp"]] and used whole, the index split over dp:
    instead of the table, the index is gathered, and an exchange turns columns of all rows into whole rows of a rank's
    part of the batch, which is where the rows are kept as before. Nothing runs beside either, since all that follows
    reads the rows. Casts to a narrower type, as a head reads a table that it shares, gather what they write, later; any
    other reader of the whole table gathers it for all. In a loop, a table is gathered once: nothing changes.

    block: that of the step, with arguments placed as `ends` says.
    """
    changed: dict[ir.Value, Decision] = {}
    for table, (stored, readers) in _tables(decisions, block, ends).items():
        lookups = [each for each, _ in readers if traits_of(each.op).is_lookup]
        found = [other for each in lookups if each.op.block == block and (other := _other(each, stored, mesh))]
        if len(found) < len(lookups) or any(_gathers(each, number, stored) for each, number in readers):
            continue
        moved = sum(_moved(old, new, mesh) for old, new in zip(lookups, found, strict=True))
        gathered = max((_gathered(table, stored, each, mesh) for each in lookups), default=0)
        if moved < gathered:
            why = f"its columns are looked up where they are ({moved} B before what follows, else {gathered} B)"
            for each in found:
                choice = replace(each.choice, reasons=(*each.choice.reasons, why))
                changed[key_of(each.op)] = replace(each, choice=choice)
    return tuple(changed.get(key_of(each.op), each) for each in decisions)


def _tables(
    decisions: Sequence[Decision], block: ir.Block, ends: Ends
) -> dict[ir.Value, tuple[Placement, list[tuple[Decision, int]]]]:
    """The step's arguments that are used otherwise than they are stored, with that placement, and their readers: a
    decision and the number of its operand. Those that an operation reads in its region, at computed places, are left
    out.
    """
    triples = zip(block.arguments, ends.arguments, ends.used, strict=True)
    found: dict[ir.Value, tuple[Placement, list[tuple[Decision, int]]]] = {
        argument: (stored, []) for argument, stored, used in triples if stored is not None and stored != used
    }
    for each in decisions:
        for number, _ in each.loops.read():
            if each.op.operands[number] in found:
                found[each.op.operands[number]][1].append((each, number))
        for inner, number in captured(each.op) if len(each.op.regions) else ():
            found.pop(inner.operands[number], None)
    return found


def _other(decision: Decision, stored: Placement, mesh: Mesh) -> Decision | None:
    """The decision in which a rank looks up the columns that it has; None where it already does, or cannot."""
    split = _other_split(decision, stored, mesh)
    if split is None:
        return None
    index = decision.op.operands[_INDEX]
    whole, part = (decision.loops.operand(_INDEX, each) for each in (split, decision.choice.split))
    choice = Choice(split, _bytes(index, part, whole, mesh), decision.choice.reasons, ())
    return replace(decision, choice=choice, made=(decision.loops.result(0, split),))


def _moved(old: Decision, new: Decision, mesh: Mesh) -> int:
    """The bytes of gathering the index and of exchanging the rows."""
    return new.choice.bytes + _bytes(key_of(old.op), new.made[0], new.kept[0], mesh)


def _gathered(table: ir.Value, stored: Placement, lookup: Decision, mesh: Mesh) -> int:
    return _bytes(table, stored, lookup.loops.operand(_TABLE, lookup.choice.split), mesh)


def _other_split(decision: Decision, stored: Placement, mesh: Mesh) -> Split | None:
    """The split over the columns alone, of the axes over which the table is stored; None as for `_other`."""
    columns = stored.dims[1]
    if not columns or decision.kept != decision.made:
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
    if traits_of(reader.op).is_lookup or is_cast(reader.op, NARROW):
        return False
    return reader.loops.operand(number, reader.choice.split) != stored


def _bytes(value: ir.Value, source: Placement, target: Placement, mesh: Mesh) -> int:
    tensor = tensor_of(value, mesh)
    assert tensor is not None
    return movement_bytes(source, target, tensor)
