"""In-place updates of state, where the old value is dead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """State, by its argument, and its new value at `offset` bytes in an allocation."""

    argument: ir.Value
    new: ir.Value
    offset: int

    @property
    def range(self) -> tuple[int, int]:
        """Offset and bytes."""
        return self.offset, value_bytes(self.argument)


def join_state(sharing: Sharing, step: func.FuncOp, pairs_of: Callable[[ir.Operation], Pairs]) -> None:
    """Places new values of state in place of the old ones; `pairs_of` says what a kernel may do in place.

    An allocation filled by new values, such as a bucket, takes all of their arguments or none. Raises DmcError if the
    new value of state is the old value of other changing state.
    """
    buckets = {root: _buckets(sharing.allocation(root)) for root in sharing.roots()}
    for root, changes in _changes(sharing, step).items():
        room = sharing.allocation(root).bytes
        filled = sum(change.range[1] + _gap(change.new) for change in changes)
        if filled < room or not _is_safe(sharing, root, changes, buckets, pairs_of):
            continue
        old, offset = sharing.place_of(changes[0].argument)
        if all(len(sharing.allocation_of(change.argument).members) == 1 for change in changes):
            places = [(sharing.place_of(change.argument)[0], change.offset) for change in changes]
            for argument, at in places if sharing.fits(root, places) else ():
                sharing.join(root, argument, at)
        elif changes[0].range == (0, room) and sharing.fits(old, [(root, offset)]):
            # The state is in a bucket, and so is its new value.
            sharing.join(old, root, offset)


def _buckets(own: Allocation) -> list[int]:
    """The storages, other than arguments, of an allocation that contains arguments."""
    arguments = set(own.arguments)
    return [index for index in own.members if index not in arguments] if arguments else []


def _changes(sharing: Sharing, step: func.FuncOp) -> dict[int, list[_Change]]:
    """The changes of state by the allocation of the new value; if several share a value, the first."""
    *_, terminator = sharing.storages.ops
    mutated = [(step.arguments[old.index], terminator.operands[new.index]) for old, new in mutated_state(step)]
    changing = {old for old, new in mutated if old != new}
    changes: defaultdict[int, dict[tuple[int, int], _Change]] = defaultdict(dict)
    for old, new in mutated:
        source = sharing.storages.of(new).value
        if isinstance(source.owner, ir.Block):
            if source != old and source in changing:
                fact = "gives state the old value of other state, which also changes"
                raise DmcError(terminator, fact, "let a kernel compute the new value")
            continue
        if _is_rank_dependent(new):
            continue
        root, offset = sharing.place_of(new)
        change = _Change(old, new, offset)
        changes[root].setdefault(change.range, change)
    return {root: _apart(found.values()) for root, found in changes.items()}


def _is_rank_dependent(value: ir.Value) -> bool:
    """Whether a value's offset in its storage depends on the rank: all ranks' slots are at the same place."""
    return any(isinstance(op.opview, dm.AllSliceOp) for op in _views(value))


def _gap(value: ir.Value) -> int:
    """How many bytes between a new value and the next may be nobody's: in a bucket, members are aligned."""
    return ALIGNMENT if any(isinstance(op.opview, dm.UnpackOp) for op in _views(value)) else 0


def _views(value: ir.Value) -> Iterator[ir.Operation]:
    """Through what a value is seen in its storage."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if not (is_view(op) or isinstance(op.opview, dm.WaitOp | dm.UnpackOp | dm.AllSliceOp)):
            return
        yield op
        value = op.operands[0]


def _apart(changes: Iterable[_Change]) -> list[_Change]:
    """Of overlapping new values, the first in memory."""
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
    """Whether each old value is dead before, or when, its place is written."""
    written = _first_writes(sharing, root, {change.range for change in changes})
    for change in changes:
        own = sharing.storages.places[change.argument].storage
        over = [own, *buckets[sharing.place(own)[0]]]
        reads = [read for index in over for read in sharing.storages.all[index].reads]
        if not _is_read_before(sharing, change, reads, written[change.range], pairs_of):
            return False
    return True


def _first_writes(sharing: Sharing, root: int, ranges: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """For each range of an allocation, a position before which it is not written."""
    written = dict.fromkeys(ranges, NEVER)
    elsewhere = NEVER  # A storage that fills no single range may write to any of them.
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
    """Whether `reads` of the old value end before it is overwritten, except in-place ones."""
    late = [read for read in reads if read.last >= written]
    if not late:
        return True
    kernel = sharing.storages.ops[written]
    if any(read.first != written for read in late) or not isinstance(kernel.opview, dm.KernelOp):
        return False
    made = [n for n, result in enumerate(kernel.results) if sharing.place_of(result) == sharing.place_of(change.new)]
    # A mere part of a result is not computed elementwise.
    place, size = sharing.place_of(change.argument), change.range[1]
    return bool(made) and sharing.may_write(kernel, made, pairs_of(kernel), place, size)
