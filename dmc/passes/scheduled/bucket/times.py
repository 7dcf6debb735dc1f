"""When a bucket would arrive, and its deadline: the times with which dm-bucket preserves overlap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.tasks.costs import TaskCosts
from dmc.machine import Machine, collective_ns, kernel_ns
from dmc.passes.scheduled.bucket.layouts import LAYOUTS
from dmc.passes.scheduled.bucket.members import Member
from dmc.passes.shared.motion import Order

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Timing:
    """A bucket's times in nanoseconds, if kernels ran back to back and never waited.

    before: when its lane is free. ready: when its last operand is. apart: when the last member would arrive if each
    moved alone. wanted: the bucket's deadline, such that no kernel waits for it or for what follows on its lane. due:
    the same if what is read earlier, although it follows, went first: so a schedule may do with a movement alone.
    """

    before: float
    ready: float
    apart: float
    wanted: float
    due: float
    bytes: int


class BucketTimes:
    """The times of one block on a machine. There is one lane per group: its movements follow each other."""

    def __init__(self, module: ir.Module, order: Order, members: Sequence[Member], machine: Machine) -> None:
        self._machine = machine
        self._costs = TaskCosts.of(module, machine)
        kernels = [self._costs.kernel(op.opview) if isinstance(op.opview, dm.KernelOp) else 0.0 for op in order.ops]
        self._begins = tuple(accumulate(kernels, initial=0.0))
        self._free: defaultdict[Axes, float] = defaultdict(float)
        self._wanted = self._deadlines(members)
        self._due = self._deadlines(sorted(members, key=lambda member: (member.reader, member.place)))

    def alone(self, member: Member) -> Timing:
        """The times of a bucket of one."""
        before = self._free[_axes(member)]
        ready = self._begins[member.ready + 1]
        arrival = max(before, ready) + self._moving(member, member.bytes)
        return Timing(before, ready, arrival, self._wanted[member.place], self._due[member.place], member.bytes)

    def joined(self, timing: Timing, member: Member) -> Timing:
        """The times of the bucket with one more member."""
        ready = self._begins[member.ready + 1]
        apart = max(timing.apart, ready) + self._moving(member, member.bytes)
        wanted = min(timing.wanted, self._wanted[member.place])
        due = min(timing.due, self._due[member.place])
        size = timing.bytes + member.bytes
        return replace(timing, ready=max(timing.ready, ready), apart=apart, wanted=wanted, due=due, bytes=size)

    def arrival(self, timing: Timing, member: Member) -> float:
        """When a bucket of several members like `member` arrives."""
        moving = self._moving(member, timing.bytes) + self._copying(member, timing.bytes)
        return max(timing.before, timing.ready) + moving

    def close(self, member: Member, arrival: float) -> None:
        """Marks the lane as busy until a bucket has arrived."""
        self._free[_axes(member)] = max(self._free[_axes(member)], arrival)

    def _deadlines(self, members: Sequence[Member]) -> dict[int, float]:
        """For each member, by place, when it must have arrived for no kernel to wait for it or for those behind it, in
        this order, on its lane.
        """
        deadlines: dict[int, float] = {}
        latest: defaultdict[Axes, float] = defaultdict(lambda: inf)
        for member in reversed(members):
            axes = _axes(member)
            deadlines[member.place] = min(latest[axes], self._begins[member.reader])
            latest[axes] = deadlines[member.place] - self._moving(member, member.bytes)
        return deadlines

    def _moving(self, member: Member, bytes: int) -> float:
        kind = member.movement.operation.name.removeprefix("dm.")
        assert self._costs.mesh is not None, "a group has a mesh, as the verifier has checked"
        groups = self._costs.mesh.groups(_axes(member))
        return max(collective_ns(self._machine, kind, group, bytes) for group in groups)

    def _copying(self, member: Member, bytes: int) -> float:
        """The cost of packing or unpacking by a kernel: each byte is read and written."""
        if not LAYOUTS[member.movement.operation.name].copies:
            return 0.0
        return kernel_ns(self._machine, "other", 0, 2 * bytes, str(member.element))


def _axes(member: Member) -> Axes:
    return tuple(dm.group_axes(member.movement.group))
