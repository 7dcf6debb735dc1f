"""Decisions as attributes of operations, and back.

`dm.sharding`: one sharding per result of the operation, as it is kept. `dm.loops`: for each of its loops the mesh axes
that split it, each after the number of blocks if there are several (`3*tp`). `dm.partial`: axis to reduction, for the
partial operands that it passes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.loops.loops import Split
from dmc.analysis.loops.rules import loops_of
from dmc.analysis.sharding.choice import Choice
from dmc.analysis.sharding.decisions import LOOP, Decision, decided_ops, key_of
from dmc.analysis.sharding.ends import SHARDING, checked
from dmc.analysis.sharding.pins import PIN
from dmc.dialect.attributes import axis_and_blocks, axis_word
from dmc.dialect.placements import sharding_of
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.placement.placement import Placement, replicated
from dmc.walk import walk

LOOPS, PARTIAL, REASON = "dm.loops", "dm.partial", "dm.reason"


def write(decision: Decision, mesh: str, reasons: bool) -> None:
    """States a decision on its operation; one that every rank computes whole gets only the reason."""
    attributes, split = decision.op.attributes, decision.choice.split
    for name in (SHARDING, LOOPS, PARTIAL, REASON):
        if name in attributes:
            del attributes[name]
    if any(placement.axes for placement in decision.kept):
        attributes[SHARDING] = ir.ArrayAttr.get([sharding_of(placement, mesh) for placement in decision.kept])
    if any(split.axes):
        words = [[axis_word(axis, split.blocks_of(axis)) for axis in axes] for axes in split.axes]
        strings = [ir.ArrayAttr.get([ir.StringAttr.get(word) for word in each]) for each in words]
        attributes[LOOPS] = ir.ArrayAttr.get(strings)
    if split.partial:
        kinds = {axis: dm.ReductionAttr.of(kind) for axis, kind in split.partial}
        attributes[PARTIAL] = ir.DictAttr.get(kinds)
    if reasons and decision.choice.reasons:
        attributes[REASON] = ir.StringAttr.get("; ".join(decision.choice.reasons))


def fixed_in(function: func.FuncOp, mesh: Mesh) -> dict[ir.Value, tuple[Placement, ...]]:
    """The placements of results required by `dm.sharding`; raises DmcError if one does not fit."""
    fixed: dict[ir.Value, tuple[Placement, ...]] = {}
    for op in walk(function.operation):
        if SHARDING in op.attributes and op.name not in ("func.func", LOOP):
            fixed[key_of(op)] = _stated(op, mesh)
    return fixed


def read(function: func.FuncOp, mesh: Mesh) -> dict[ir.Value, Decision]:
    """The decisions that attributes state; without them, every rank computes the whole.

    Raises DmcError if one does not fit its operation.
    """
    decisions: dict[ir.Value, Decision] = {}
    for op in decided_ops(function.entry_block):
        loops = loops_of(op)
        split = _split(op, len(loops.loops), mesh)
        if len(split.axes) != len(loops.loops) or not loops.fits(split):
            raise DmcError(op, f"cannot be split as stated by {LOOPS} and {PARTIAL}", "run dm-propagate-sharding again")
        kept = _stated(op, mesh)
        made = kept if op.name == LOOP else tuple(loops.result(i, split) for i in range(len(kept)))
        decisions[key_of(op)] = Decision(op, loops, Choice(split, 0, (), ()), made, kept)
    return decisions


def erase(function: func.FuncOp) -> None:
    """Removes these attributes from all operations."""
    for op in walk(function.operation):
        for name in (SHARDING, LOOPS, PARTIAL, REASON, PIN):
            if op.name != "func.func" and name in op.attributes:
                del op.attributes[name]


def _split(op: ir.Operation, loops: int, mesh: Mesh) -> Split:
    stated: Sequence[Sequence[ir.StringAttr]] = op.attributes[LOOPS] if LOOPS in op.attributes else [()] * loops
    partial: Mapping[str, str] = {}
    if PARTIAL in op.attributes:
        partial = {each.name: each.attr.value for each in ir.DictAttr(op.attributes[PARTIAL])}
    words = [[axis_and_blocks(ir.StringAttr(word).value) for word in each] for each in stated]
    blocks = sorted((axis, count) for each in words for axis, count in each if count > 1)
    axes = tuple(tuple(axis for axis, _ in each) for each in words)
    return Split(mesh, axes, tuple(sorted(partial.items())), tuple(blocks))


def _stated(op: ir.Operation, mesh: Mesh) -> tuple[Placement, ...]:
    types = [result.type for result in op.results if isinstance(result.type, ir.RankedTensorType)]
    if SHARDING not in op.attributes:
        return tuple(replicated(type_.rank) for type_ in types)
    stated = list(op.attributes[SHARDING])
    if len(stated) != len(types):
        raise DmcError(op, f"returns {len(types)} tensors, but {SHARDING} states {len(stated)}", "state one for each")
    return tuple(checked(op, type_, each, mesh) for type_, each in zip(types, stated, strict=True))
