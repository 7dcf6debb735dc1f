"""Along which axes of the mesh the ranks may hold different values."""

from __future__ import annotations

from collections.abc import Mapping

from dmc import dialect as dm
from dmc._mlir import func, ir, scf
from dmc.dialect.collectives import COLLECTIVES
from dmc.dialect.transfers import SHARDING
from dmc.walk import reads

Axes = frozenset[str]

# What these deliver is the same for all members of the group.
_SHARED = (dm.AllReduceOp, dm.AllGatherOp, dm.BroadcastOp)


def differing_axes(step: func.FuncOp, every: Axes) -> Mapping[ir.Value, Axes]:
    """For each value in the block of `step` the axes, of `every` one of the mesh, along which ranks may differ in it.

    Along others they hold the same bits: what is computed from the same by the same code is the same, and all members
    get the same from a collective that has them all. An argument that says no `dm.sharding` may differ everywhere.
    """
    differing: dict[ir.Value, Axes] = {}
    attributes = step.operation.attributes.get("arg_attrs", ())
    for i, argument in enumerate(step.arguments):
        stated = attributes[i] if i < len(attributes) else {}
        differing[argument] = stated_axes(stated[SHARDING]) if SHARDING in stated else every
    _follow(step.entry_block, differing, every)
    return differing


def stated_axes(sharding: dm.ShardingAttr) -> Axes:
    """The axes along which a value that lies so differs between ranks: it is split, or a partial sum."""
    return frozenset(axis for axes in dm.split_axes(sharding) for axis in axes) | frozenset(dm.partial_axes(sharding))


def _follow(block: ir.Block, differing: dict[ir.Value, Axes], every: Axes) -> None:
    for view in block.operations:
        if isinstance(view, scf.ForOp):
            _follow_loop(view, differing, every)
            continue
        read = frozenset[str]().union(*(differing[value] for value in reads(view) if value in differing))
        differing.update(dict.fromkeys(view.operation.results, _behind(view, read, every)))


def _follow_loop(loop: scf.ForOp, differing: dict[ir.Value, Axes], every: Axes) -> None:
    """What a loop carries may differ as what it starts from, or as what any round leaves."""
    counter, *carried = loop.body.arguments
    given = [differing[value] for value in loop.operation.operands]
    bounds, starts = given[:3], given[3:]
    differing[counter] = frozenset[str]().union(*bounds)
    while True:
        differing.update(zip(carried, starts, strict=True))
        _follow(loop.body, differing, every)
        *_, end = loop.body.operations
        left = [start | differing[value] for start, value in zip(starts, end.operands, strict=True)]
        if left == starts:
            break
        starts = left
    differing.update(zip(loop.operation.results, starts, strict=True))


def _behind(view: ir.OpView, read: Axes, every: Axes) -> Axes:
    """The axes along which the results of an operation may differ, whose operands may differ along `read`."""
    if isinstance(view, _SHARED):
        return read - frozenset(dm.group_axes(view.group))
    if isinstance(view, (*COLLECTIVES, dm.AllSliceOp)):
        return read | frozenset(dm.group_axes(view.group))
    if isinstance(view, dm.KernelOp):
        return read if view.group is None else read | frozenset(dm.group_axes(view.group))
    return every if isinstance(view, dm.StartOp | dm.WaitOp | dm.SendOp | dm.RecvOp) else read
