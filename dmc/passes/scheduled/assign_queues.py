"""dm-assign-queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes.base import Pass
from dmc.passes.shared.report import named, print_table
from dmc.passes.shared.starts import lane_name, lane_of, with_tokens
from dmc.step_function import find_step
from dmc.walk import listed

# A clock: for each channel, how many of its movements are known to be complete.
Clock = Mapping[str, int]


@dataclass(frozen=True)
class AssignQueues(Pass):
    """Gives each movement between ranks its group's communicator, and orders those that may not run concurrently.

    `all_reduce(%x) {group = <@mesh, ["dp"]>}` gets `channel = @dp`; one `dm.channel` is declared per group, in the
    order of first use. Communicators that share two or more ranks could deadlock if ranks ran their movements in
    different orders, so of two such movements the later one is started `after` the token of the earlier, unless data or
    other tokens already order them. Existing channels are reused. Run it again after a pass that reorders starts of one
    channel: tokens stay, and missing ones are added. reasons: print the queue of each movement and the tokens added to
    it on stderr. Linear in the number of operations.
    """

    name = "dm-assign-queues"
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for broken rules of `dm`."""
        dm.verify_symbols(module)
        channels = _Channels(module)
        for op in listed(module.operation):
            if "group" in op.attributes and isinstance(op.opview, dm.MOVEMENTS) and "channel" not in op.attributes:
                op.attributes["channel"] = ir.FlatSymbolRefAttr.get(channels.of(op.attributes["group"]), module.context)
        order = _Order(channels.conflicts())
        for view in list(find_step(module).entry_block.operations):
            order.visit(view)
        if self.reasons:
            print_table(("movement", "queue", "now waits for"), order.rows)


class _Channels:
    """The channels of a module, by name, and the means to declare more."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._symbols = dm.Symbols.of(module)
        self._taken = set(self._symbols.ops)
        channels = [op for op in module.body.operations if isinstance(op, dm.ChannelOp)]
        self._groups = {op.sym_name.value: op.group for op in channels if op.group is not None}
        self._names: dict[Any, str] = {}
        for name, group in self._groups.items():
            self._names.setdefault(group, name)
        declarations = [op for op in module.body.operations if isinstance(op, dm.MeshOp | dm.ChannelOp)]
        self._last = declarations[-1].operation if declarations else None

    def of(self, group: dm.GroupAttr) -> str:
        """The channel of a group, declared after the others if there is none yet."""
        if group not in self._names:
            name = self._fresh("_".join(dm.group_axes(group)))
            assert self._last is not None, "a group has a mesh"
            with self._last.location:
                channel = dm.channel(sym_name=name, group=group, ip=ir.InsertionPoint.after(self._last))
            self._last, self._names[group], self._groups[name] = channel.operation, name, group
        return self._names[group]

    def conflicts(self) -> dict[str, tuple[str, ...]]:
        """For each channel, the others that share two or more ranks with it, at some rank."""
        return {
            name: tuple(
                other for other in self._groups if other != name and self._shared(group, self._groups[other]) > 1
            )
            for name, group in self._groups.items()
        }

    def _shared(self, one: dm.GroupAttr, other: dm.GroupAttr) -> int:
        """The number of ranks that a group along one's axes shares with an intersecting group along the other's."""
        axes = tuple(axis for axis in dm.group_axes(one) if axis in dm.group_axes(other))
        return self._symbols.axes_size(one.mesh.value, axes, one)

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name


@dataclass
class _Order:
    """Goes through a block in order and adds missing tokens.

    A clock says which movements are complete once a value is available: those it depends on, and those before them on
    their lanes. `_last`: the last movement of each channel, the latest one last.
    """

    conflicts: Mapping[str, tuple[str, ...]]
    rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    _clocks: dict[ir.Value, Clock] = field(default_factory=dict[ir.Value, Clock])
    _last: dict[str, dm.StartOp] = field(default_factory=dict[str, dm.StartOp])
    _counts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def visit(self, view: ir.OpView) -> None:
        """Processes the next operation of the block."""
        clock = _joined(self._clocks[operand] for operand in view.operation.operands if operand in self._clocks)
        if isinstance(view, dm.StartOp):
            name, lane, others = named(dm.movement_of(view).operation), lane_name(view), list[dm.StartOp]()
            if channel := lane_of(view)[1]:
                view, clock, others = self._ordered(view, channel, clock)
            waits_for = (f"{named(dm.movement_of(each).operation)} on {lane_of(each)[1]}" for each in others)
            self.rows.append((name, lane, ", ".join(waits_for)))
        if clock:
            self._clocks.update((result, clock) for result in view.operation.results)

    def _ordered(self, start: dm.StartOp, channel: str, clock: Clock) -> tuple[dm.StartOp, Clock, list[dm.StartOp]]:
        """The start, with tokens of the latest starts added, and the clock after it."""
        if channel in self._last:
            clock = _joined((clock, self._clocks[self._last[channel].token]))
        others: list[dm.StartOp] = []
        # Latest first: it may imply the others.
        for other in [each for each in reversed(self._last) if each in self.conflicts[channel]]:
            if clock.get(other, 0) < self._counts[other]:
                others.append(self._last[other])
                clock = _joined((clock, self._clocks[others[-1].token]))
        if others:
            start = with_tokens(start, [each.token for each in others])
        self._counts[channel] += 1
        self._last.pop(channel, None)
        self._last[channel] = start
        return start, {**clock, channel: self._counts[channel]}, others


def _joined(clocks: Iterable[Clock]) -> Clock:
    """The clock when all of these are complete."""
    joined: dict[str, int] = {}
    for clock in clocks:
        for channel, count in clock.items():
            joined[channel] = max(count, joined.get(channel, 0))
    return joined
