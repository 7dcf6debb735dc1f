"""New values of state take the place of the old ones, where nobody reads the old value any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.allocation import NEVER, Sharing
from dmc.analysis.pieces import is_view
from dmc.analysis.pointwise import Pairs
from dmc.analysis.storage import value_bytes
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
    """Lays state where its new value is made; `pairs_of` says what a kernel may do in place.

    An allocation that new values fill, as a bucket may be, takes all of their arguments or none. Raises DmcError where
    the new value of state is the old value of other state that changes.
    """
    for root, changes in _changes(sharing, step).items():
        room = sharing.allocation(root).bytes
        filled = sum(size for _, size in (change.range for change in changes)) + ALIGNMENT * len(changes)
        if filled >= room and _is_safe(sharing, root, changes, pairs_of):
            for change in changes:
                sharing.join(root, sharing.place_of(change.argument)[0], change.offset)


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


def _is_safe(sharing: Sharing, root: int, changes: list[_Change], pairs_of: Callable[[ir.Operation], Pairs]) -> bool:
    """Whether each old value is read for the last time before its place is written, or as it is."""
    written = _first_writes(sharing, root, {change.range for change in changes})
    return all(_is_read_before(sharing, change, written[change.range], pairs_of) for change in changes)


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
    sharing: Sharing, change: _Change, written: int, pairs_of: Callable[[ir.Operation], Pairs]
) -> bool:
    reads = [read for index in _storages_over(sharing, change.argument) for read in sharing.storages.all[index].reads]
    if max((read.last for read in reads), default=-1) < written:
        return True
    kernel = sharing.storages.ops[written]
    if any(read.last >= written and read.first != written for read in reads) or not isinstance(kernel.opview, dm.KernelOp):
        return False
    made = [n for n, result in enumerate(kernel.results) if sharing.place_of(result) == sharing.place_of(change.new)]
    return sharing.may_write(kernel, made, pairs_of(kernel), sharing.place_of(change.argument), change.range[1])


def _storages_over(sharing: Sharing, argument: ir.Value) -> list[int]:
    """The storages that hold what an argument brings: its own, and buckets that it lies in."""
    own = sharing.storages.places[argument].storage
    allocation = sharing.allocation_of(argument)
    return [own, *(index for index in allocation.members if index not in allocation.arguments)]
