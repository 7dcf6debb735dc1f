"""dm-bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.requests.settings import costs_of
from dmc.analysis.requests.verbs import verbs_of
from dmc.dialect.labels import Label, label_of, put_kernel_label, put_label
from dmc.dialect.plan import type_bytes
from dmc.passes.base import Pass
from dmc.passes.scheduled.bucket.filling import Filler, Filling
from dmc.passes.scheduled.bucket.layouts import LAYOUTS, Rows
from dmc.passes.scheduled.bucket.members import Member, members_of
from dmc.passes.scheduled.bucket.times import BucketTimes
from dmc.passes.shared.kernel_functions import KernelFunctions
from dmc.passes.shared.motion import Order, hoisted, sunk
from dmc.passes.shared.report import named, print_table
from dmc.passes.shared.starts import check_started
from dmc.plans.verbs import Bucket as Asked
from dmc.plans.verbs import Overlap
from dmc.step_function import find_step

HEAD = ("movement", "group", "members", "bytes", "started later by ops", "closed by")


@dataclass(frozen=True)
class Bucket(Pass):
    """Merges movements that are equal except for their operands into one, so that its latency is paid once.

    `%y0 = all_reduce(%x0); %y1 = all_reduce(%x1)` becomes `%y0, %y1 = unpack(all_reduce(pack(%x0, %x1)))`: a flat
    buffer in which members begin at multiples of 256 bytes. All-reduces, broadcasts and permutes are packed without a
    copy; for reduce-scatters a kernel packs, for all-gathers one unpacks (`layouts.py`). Buckets are filled in the
    order of starts (for gradients, that in which they become ready), up to `bytes` bytes (a larger movement stays
    alone), while no member is read before the last is ready. Waits are first sunk to their readers. Where the plan says
    how large buckets are (`dm.verbs`), they are filled up to that, whatever is delayed.

    preserve_overlap: a member joins only if the bucket then arrives no later than the member alone would after the
    others on the lane, or no later than its deadline, set by its first reader and by the deadlines of what follows on
    the lane. So bucketing never waits longer than it saves in latency. Times are those of `machine` (the module's, if
    empty), with sequential kernels and one lane per group. reasons: print the buckets and what closed each on stderr.
    Linear in the number of operations.
    """

    name = "dm-bucket"
    bytes: int = 25 * 2**20
    preserve_overlap: bool = False
    machine: str = ""
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for violated rules of `dm`, movements not started, and kernels without a cost."""
        dm.verify_symbols(module)
        block = find_step(module).entry_block
        check_started(block)
        asked = verbs_of(module, Asked)
        limit = asked[0].bytes if asked else self.bytes
        order = Order.of(block)
        order = order.place(hoisted(order, starts=False).keys)
        order = order.place(sunk(order).keys)
        members = list(members_of(order))
        times = None
        # Where nothing overlaps, no bucket comes too late.
        if self.preserve_overlap and not asked and not verbs_of(module, Overlap):
            times = BucketTimes(module, order, members, costs_of(module, self.machine))
        filled = Filler(order, limit, times).fill(members)
        if self.reasons:
            print_table(HEAD, [_row(filling) for filling in filled])
        functions, symbols = KernelFunctions(module), dm.Symbols.of(module)
        for filling in filled:
            if len(filling.members) > 1:
                _merge(filling.members, functions, symbols)


def _row(filling: Filling) -> tuple[object, ...]:
    first = filling.members[0]
    group = " ".join(dm.group_axes(first.movement.group))
    passed = filling.ready - max(first.ready, first.place)
    return (named(first.movement.operation), group, len(filling.members), filling.bytes, passed, filling.closed_by)


def _merge(members: Sequence[Member], functions: KernelFunctions, symbols: dm.Symbols) -> None:
    """Puts one start after the producer of the last operand, and one wait before the first reader."""
    movements = [member.movement for member in members]
    layout = LAYOUTS[movements[0].operation.name]
    # A row is the data that one rank sends or receives of a member: the smaller of operand and result.
    rows = Rows.of(
        [min(each.input.type, each.result.type, key=type_bytes) for each in movements],
        symbols.group_size(movements[0].group),
    )
    label = reduce(Label.joined, [label_of(each.operation) for each in movements])
    with ir.Location.fused([each.operation.location for each in movements]):
        with _behind_operands([member.start.operation for member in members]):
            flat = layout.pack(rows, [member.start.input for member in members], functions)
            start = _start(flat, layout.payload(rows), members, label)
        first_wait = reduce(_earlier, [member.wait.operation for member in members])
        with ir.InsertionPoint(first_wait):
            types = [each.result.type for each in movements]
            values = layout.unpack(rows, dm.wait(start.handle).result, types, functions)
    for kernel in (value.owner for value in (flat, values[0]) if isinstance(value.owner, dm.KernelOp)):
        put_kernel_label(kernel.operation, label.tensor)
    for member, value in zip(members, values, strict=True):
        member.wait.result.replace_all_uses_with(value)
        member.wait.operation.erase()
        member.start.operation.erase()


def _start(flat: ir.Value, payload: ir.Type, members: Sequence[Member], label: Label) -> dm.StartOp:
    """Starts the members' movement on the bucket; `label` is their common label."""
    first = members[0].movement.operation
    attributes = {name: first.attributes[name] for name in first.attributes}

    def movement(operand: ir.Value) -> ir.OpView:
        made = ir.Operation.create(first.name, [payload], [operand], attributes)
        put_label(made, label)
        return made.opview

    queue, instance = members[0].start.queue.value, members[0].start.instance.value
    return dm.start(flat, movement, payload=payload, queue=queue, instance=instance)


def _behind_operands(starts: Sequence[ir.Operation]) -> ir.InsertionPoint:
    """Just after the last producer of an operand, but not before the first start."""
    owners = [start.operands[0].owner for start in starts]
    makers = [owner.operation for owner in owners if not isinstance(owner, ir.Block)]
    last = reduce(_later, makers, starts[0])
    return ir.InsertionPoint(last) if last == starts[0] else ir.InsertionPoint.after(last)


def _earlier(one: ir.Operation, other: ir.Operation) -> ir.Operation:
    return one if one.is_before_in_block(other) else other


def _later(one: ir.Operation, other: ir.Operation) -> ir.Operation:
    return other if one.is_before_in_block(other) else one
