"""The mesh axes along which ranks may hold different values."""

from __future__ import annotations

from collections.abc import Mapping

from dmc import dialect as dm
from dmc._mlir import func, ir, scf
from dmc.analysis.ranks.exchanges import exchanged
from dmc.dialect.collectives import COLLECTIVES
from dmc.dialect.transfers import SHARDING
from dmc.walk import reads

Axes = frozenset[str]

# The results of these are the same for all members of the group.
_SHARED = (dm.AllReduceOp, dm.AllGatherOp, dm.BroadcastOp)


def differing_axes(step: func.FuncOp, every: Axes) -> Mapping[ir.Value, Axes]:
    """For each value in the block of `step`, the axes, of `every` mesh axis, along which it may differ between ranks.

    Along others it is bitwise equal: the same code on the same operands gives the same result, and a collective returns
    the same to all its members, as does the sum of a value and of what the other of two ranks holds. An argument
    without `dm.sharding` may differ along all axes.
    """
    differing: dict[ir.Value, Axes] = {}
    attributes = step.operation.attributes.get("arg_attrs", ())
    for i, argument in enumerate(step.arguments):
        stated = attributes[i] if i < len(attributes) else {}
        differing[argument] = stated_axes(stated[SHARDING]) if SHARDING in stated else every
    _follow(step.entry_block, differing, every)
    return differing


def stated_axes(sharding: dm.ShardingAttr) -> Axes:
    """The axes along which a value of this placement differs between ranks: those that split it, or of partial sums."""
    return frozenset(axis for axes in dm.split_axes(sharding) for axis in axes) | frozenset(dm.partial_axes(sharding))


def _follow(block: ir.Block, differing: dict[ir.Value, Axes], every: Axes) -> None:
    for view in block.operations:
        if isinstance(view, scf.ForOp):
            _follow_loop(view, differing, every)
            continue
        read = frozenset[str]().union(*(differing[value] for value in reads(view) if value in differing))
        if (exchange := exchanged(view.operation)) is not None:
            read = read - frozenset(dm.group_axes(exchange.group))
        differing.update(dict.fromkeys(view.operation.results, _behind(view, read, every)))


def _follow_loop(loop: scf.ForOp, differing: dict[ir.Value, Axes], every: Axes) -> None:
    """A loop-carried value may differ wherever its initial value or any iteration's result may."""
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
    """The axes along which results of an operation may differ, if its operands may differ along `read`."""
    if isinstance(view, _SHARED):
        return read - frozenset(dm.group_axes(view.group))
    if isinstance(view, (*COLLECTIVES, dm.AllSliceOp)):
        return read | frozenset(dm.group_axes(view.group))
    if isinstance(view, dm.KernelOp):
        return read if view.group is None else read | frozenset(dm.group_axes(view.group))
    return every if isinstance(view, dm.StartOp | dm.WaitOp | dm.SendOp | dm.RecvOp) else read
