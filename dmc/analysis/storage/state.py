"""New values of state take the place of the old ones, where nobody reads the old value any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.storage.allocation import NEVER, Allocation, Sharing
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.storage.pointwise import Pairs
from dmc.analysis.storage.storages import Read, value_bytes
from dmc.errors import DmcError
from dmc.program import ALIGNMENT
from dmc.step_function import mutated_state


@dataclass(frozen=True)
class _Change:
    """State, by its argument, and its new value, `offset` bytes behind the beginning of an allocation."""

    argument: ir.Value
    new: ir.Value
    offset: int

    @property
    def range(self) -> tuple[int, int]:
        """Offset and bytes."""
        return self.offset, value_bytes(self.argument)


def join_state(sharing: Sharing, step: func.FuncOp, pairs_of: Callable[[ir.Operation], Pairs]) -> None:
    """Lays new values of state where the old ones lie; `pairs_of` says what a kernel may do in place.

    An allocation that new values fill, as a bucket may be, takes all of their arguments or none. Raises DmcError where
    the new value of state is the old value of other state that changes.
    """
    buckets = {root: _buckets(sharing.allocation(root)) for root in sharing.roots()}
    for root, changes in _changes(sharing, step).items():
        room = sharing.allocation(root).bytes
        filled = sum(size for _, size in (change.range for change in changes)) + ALIGNMENT * len(changes)
        if filled < room or not _is_safe(sharing, root, changes, buckets, pairs_of):
            continue
        old, offset = sharing.place_of(changes[0].argument)
        if all(len(sharing.allocation_of(change.argument).members) == 1 for change in changes):
            for change in changes:
                sharing.join(root, sharing.place_of(change.argument)[0], change.offset)
        elif changes[0].range == (0, room):
            # The state lies in a bucket: the new value comes there.
            sharing.join(old, root, offset)


def _buckets(own: Allocation) -> list[int]:
    """The storages of an allocation in which arguments lie, and that are not arguments themselves."""
    arguments = set(own.arguments)
    return [index for index in own.members if index not in arguments] if arguments else []


def _changes(sharing: Sharing, step: func.FuncOp) -> dict[int, list[_Change]]:
    """The changes of state by the allocation that holds the new value; where several are one value, the first."""
    *_, terminator = sharing.storages.ops
    mutated = [(step.arguments[old.index], terminator.operands[new.index]) for old, new in mutated_state(step)]
    changing = {old for old, new in mutated if old != new}
    changes: defaultdict[int, dict[tuple[int, int], _Change]] = defaultdict(dict)
    for old, new in mutated:
        source = sharing.storages.of(new).value
        if isinstance(source.owner, ir.Block):
            if source != old and source in changing:
                fact = "gives state the old value of other state, which changes too"
                raise DmcError(terminator, fact, "let a kernel compute the new value")
            continue
        if _is_rank_dependent(new):
            continue
        root, offset = sharing.place_of(new)
        change = _Change(old, new, offset)
        changes[root].setdefault(change.range, change)
    return {root: _apart(found.values()) for root, found in changes.items()}


def _is_rank_dependent(value: ir.Value) -> bool:
    """Whether the rank decides where in its storage a value lies: all ranks' slots lie in one place."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if isinstance(op.opview, dm.AllSliceOp):
            return True
        if not (is_view(op) or isinstance(op.opview, dm.WaitOp | dm.UnpackOp)):
            return False
        value = op.operands[0]
    return False


def _apart(changes: Iterable[_Change]) -> list[_Change]:
    """Of new values that overlap the first in memory."""
    apart: list[_Change] = []
    end = 0
    for change in sorted(changes, key=lambda change: change.range):
        if change.offset >= end:
            apart.append(change)
            end = sum(change.range)
    return apart


def _is_safe(
    sharing: Sharing,
    root: int,
    changes: list[_Change],
    buckets: Mapping[int, list[int]],
    pairs_of: Callable[[ir.Operation], Pairs],
) -> bool:
    """Whether each old value is read for the last time before its place is written, or as it is."""
    written = _first_writes(sharing, root, {change.range for change in changes})
    for change in changes:
        own = sharing.storages.places[change.argument].storage
        over = [own, *buckets[sharing.place(own)[0]]]
        reads = [read for index in over for read in sharing.storages.all[index].reads]
        if not _is_read_before(sharing, change, reads, written[change.range], pairs_of):
            return False
    return True


def _first_writes(sharing: Sharing, root: int, ranges: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """For each range of an allocation a position before which nothing is written there."""
    written = dict.fromkeys(ranges, NEVER)
    elsewhere = NEVER  # What fills a range that is none of these may fill any of them.
    for member in sharing.allocation(root).members:
        storage = sharing.storages.all[member]
        range_ = (sharing.place(member)[1], storage.bytes)
        if range_ in written:
            written[range_] = min(written[range_], storage.first)
        else:
            elsewhere = min(elsewhere, storage.first)
    return {range_: min(first, elsewhere) for range_, first in written.items()}


def _is_read_before(
    sharing: Sharing,
    change: _Change,
    reads: Iterable[Read],
    written: int,
    pairs_of: Callable[[ir.Operation], Pairs],
) -> bool:
    """Whether `reads`, those of the old value, are over when it is overwritten, but for those in place."""
    late = [read for read in reads if read.last >= written]
    if not late:
        return True
    kernel = sharing.storages.ops[written]
    if any(read.first != written for read in late) or not isinstance(kernel.opview, dm.KernelOp):
        return False
    made = [n for n, result in enumerate(kernel.results) if sharing.place_of(result) == sharing.place_of(change.new)]
    # What is only a part of a result is not made element by element.
    place, size = sharing.place_of(change.argument), change.range[1]
    return bool(made) and sharing.may_write(kernel, made, pairs_of(kernel), place, size)
