"""Assigns movements to buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes.scheduled.bucket.layouts import LAYOUTS
from dmc.passes.scheduled.bucket.members import Member
from dmc.passes.scheduled.bucket.times import BucketTimes, Timing
from dmc.passes.shared.motion import Order
from dmc.passes.shared.report import named

# Operands and results of a kernel that packs or unpacks: a dispatch binds at most 32 buffers.
MAX_PORTS = 24
# A kernel copies no more bytes of a member into or out of a bucket unless the member would be late alone.
MAX_COPIED = 1 << 20


@dataclass
class Filling:
    """A bucket being filled, in the order of starts.

    ready: the place after which it can start. reader: the place of the first wait. bytes: of all members, without
    padding. timing: its times, if overlap is preserved. closed_by: why it has no more members.
    """

    members: list[Member]
    ready: int
    reader: int
    bytes: int
    timing: Timing | None
    closed_by: str = "nothing follows"

    @staticmethod
    def of(member: Member, timing: Timing | None) -> Filling:
        """A bucket of one."""
        # It is not hoisted above its first start: what moves early is live longer.
        return Filling([member], max(member.ready, member.place), member.reader, member.bytes, timing)

    def take(self, member: Member, timing: Timing | None) -> None:
        """The bucket with one more member."""
        self.members.append(member)
        self.ready = max(self.ready, member.ready)
        self.reader = min(self.reader, member.reader)
        self.bytes += member.bytes
        self.timing = timing


@dataclass(frozen=True)
class Filler:
    """Fills one bucket of each kind at a time, up to `limit` bytes."""

    order: Order
    limit: int
    times: BucketTimes | None

    def fill(self, members: Sequence[Member]) -> list[Filling]:
        """All members in buckets, in the order of first starts. Linear in the number of members."""
        filled: list[Filling] = []
        filling: dict[tuple[str, ...], Filling] = {}
        for member in members:
            current = filling.get(member.key)
            if current is not None and self._joined(current, member):
                continue
            if current is not None:
                self._close(current)
            filling[member.key] = Filling.of(member, None if self.times is None else self.times.alone(member))
            filled.append(filling[member.key])
        return filled

    def _joined(self, current: Filling, member: Member) -> bool:
        """Adds the member, or returns why not."""
        timing = None
        if self.times is not None and current.timing is not None:
            timing = self.times.joined(current.timing, member)
        obstacle = self._obstacle(current, member, timing)
        if obstacle is not None:
            current.closed_by = obstacle
            return False
        current.take(member, timing)
        return True

    def _obstacle(self, current: Filling, member: Member, timing: Timing | None) -> str | None:
        movement = member.movement.operation
        if current.bytes + member.bytes > self.limit:
            return f"{self.limit:,} bytes"
        copies = LAYOUTS[movement.name].copies
        if copies and len(current.members) + 2 > MAX_PORTS:
            return f"{MAX_PORTS} operands and results of a kernel"
        if max(current.ready, member.ready) >= current.reader:
            return f"{named(self._reader(current.reader))}, before {named(movement)} is ready"
        if max(current.ready, member.ready) >= member.reader:
            return f"{named(self._reader(member.reader))}, before the others are ready"
        copied = max(member.bytes, *(each.bytes for each in current.members)) if copies else 0
        if copied > MAX_COPIED and timing is not None and timing.apart <= timing.due:
            return f"a copy of {copied:,} bytes, which is not needed to be in time"
        if self.times is not None and timing is not None:
            late = self.times.arrival(timing, member) - max(timing.apart, timing.wanted)
            if late > 0:
                return f"{named(movement)}, which would delay it by {late / 1000:.1f} µs"
        return None

    def _close(self, current: Filling) -> None:
        if self.times is not None and current.timing is not None:
            self.times.close(current.members[0], self._arrival(self.times, current, current.timing))

    def _arrival(self, times: BucketTimes, current: Filling, timing: Timing) -> float:
        return timing.apart if len(current.members) == 1 else times.arrival(timing, current.members[0])

    def _reader(self, place: int) -> ir.Operation:
        """The operation that follows a wait."""
        following = place + 1
        while isinstance(self.order.ops[following].opview, dm.WaitOp):
            following += 1
        return self.order.ops[following]
