"""Moving operations of a block: those that may move freely, how far they moved, and the new order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.storage.spaces import moves_state
from dmc.passes.shared.starts import IN_TIME, Lane, is_offloaded, lane_of

# The new position of an operation: at that of the operation with this index, before (< 0) or after (> 0) it.
Key = tuple[int, int]

# They compute and move nothing, so they may be anywhere between their operands and their readers.
FREE = (
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    *(op.OPERATION_NAME for op in (dm.AllSliceOp, dm.PackOp, dm.UnpackOp)),
)


@dataclass(frozen=True)
class Order:
    """The operations of a block in their current order, and the index of each."""

    ops: tuple[ir.Operation, ...]
    index: Mapping[ir.Operation, int]

    @staticmethod
    def of(block: ir.Block) -> Order:
        """The current order of a block."""
        ops = tuple(view.operation for view in block.operations)
        return Order(ops, {op: i for i, op in enumerate(ops)})

    def makers(self, op: ir.Operation) -> list[int]:
        """The operations of the block that produce the operands of `op`, which has no region that reads others."""
        owners = [operand.owner for operand in op.operands]
        return [self.index[owner.operation] for owner in owners if not isinstance(owner, ir.Block)]

    def readers(self, op: ir.Operation) -> list[int]:
        """The operations of the block that read the results of `op`, directly or in their regions."""
        return [self._at(use.owner.operation) for result in op.results for use in result.uses]

    def place(self, keys: Sequence[Key]) -> Order:
        """Sorts the operations by their keys; returns the new order."""
        order = sorted(range(len(self.ops)), key=keys.__getitem__)
        # From the end, where the terminator stays.
        following = self.ops[-1]
        for i in reversed(order[:-1]):
            self.ops[i].move_before(following)
            following = self.ops[i]
        ops = tuple(self.ops[i] for i in order)
        return Order(ops, {op: i for i, op in enumerate(ops)})

    def _at(self, op: ir.Operation) -> int:
        while op not in self.index:
            op = op.parent.operation
        return self.index[op]


@dataclass(frozen=True)
class Moves:
    """A new order: the key of each operation, and for movable ones the operation that stopped them (-1: none)."""

    keys: Sequence[Key]
    stopped: Mapping[int, int]


def hoisted(order: Order, starts: bool) -> Moves:
    """Moves free operations that feed starts, and with `starts` these too, to just after the producers of their
    operands.

    The starts of one lane keep their order. What is gathered in time is not gathered earlier, and what waits in host
    memory does not return earlier: it would not have left.
    """
    keys: list[Key] = []
    stopped: dict[int, int] = {}
    behind: Counter[int] = Counter()
    last: dict[Lane, int] = {}
    for i, is_feeding in enumerate(_feeding(order)):
        op = order.ops[i]
        is_start = isinstance(op.opview, dm.StartOp)
        if not is_feeding or (is_start and (not starts or _stays(op))):
            keys.append((i, 0))
            continue
        anchors = order.makers(op)
        if is_start:
            lane = lane_of(op.opview)
            anchors += [last[lane]] if lane in last else []
            last[lane] = i
        # Index -1 is before the first operation.
        stopped[i] = max(anchors, key=keys.__getitem__, default=-1)
        place = keys[stopped[i]][0] if anchors else -1
        behind[place] += 1
        keys.append((place, behind[place]))
    return Moves(keys, stopped)


def _feeding(order: Order) -> list[bool]:
    """Which operations are starts, or free operations that feed one."""
    feeding = [isinstance(op.opview, dm.StartOp) for op in order.ops]
    for i in reversed(range(len(order.ops))):
        if feeding[i]:
            for maker in order.makers(order.ops[i]):
                feeding[maker] = feeding[maker] or order.ops[maker].name in FREE
    return feeding


def sunk(order: Order) -> Moves:
    """Moves waits, and free operations that read them, to just before their first reader, or to the end if there is
    none.

    What waits in host memory does not leave later.
    """
    keys: list[Key] = [(i, 0) for i in range(len(order.ops))]
    stopped: dict[int, int] = {}
    before: Counter[int] = Counter()
    sinking = _sinking(order)
    for i in reversed(range(len(order.ops))):
        if sinking[i]:
            readers = order.readers(order.ops[i]) or [len(order.ops) - 1]
            stopped[i] = min(readers, key=keys.__getitem__)
            place = keys[stopped[i]][0]
            before[place] -= 1
            keys[i] = (place, before[place])
    return Moves(keys, stopped)


def _sinking(order: Order) -> list[bool]:
    """Which operations are waits, or free operations that read one."""
    sinking: list[bool] = []
    for op in order.ops:
        is_fed = op.name in FREE and any(sinking[maker] for maker in order.makers(op))
        sinking.append(is_fed or (isinstance(op.opview, dm.WaitOp) and not _leaves(op)))
    return sinking


def _stays(start: ir.Operation) -> bool:
    """Whether a start stands where it is: it is in time, or moves back what waits in host memory."""
    given = start.opview.input
    if IN_TIME in dm.movement_of(start.opview).operation.attributes:
        return True
    return given is not None and (is_offloaded(given) or moves_state(start.opview))


def _leaves(wait: ir.Operation) -> bool:
    """Whether a value has left device memory when a wait is done."""
    if not len(wait.results):
        return False
    start = wait.opview.handle.owner
    return is_offloaded(wait.results[0]) or (not isinstance(start, ir.Block) and moves_state(start.opview))


@dataclass(frozen=True)
class Distances:
    """The distance between two places of an order: operations that stay, and the bytes of their kernels."""

    ops: tuple[int, ...]
    bytes: tuple[int, ...]

    @staticmethod
    def of(order: Order, keys: Sequence[Key]) -> Distances:
        """Distances between places of `order`, in which operations whose key is their own place stay."""
        stays = [key == (i, 0) for i, key in enumerate(keys)]
        traffic = [traffic_of(op) for op in order.ops]
        return Distances(tuple(accumulate(stays, initial=0)), tuple(accumulate(traffic, initial=0)))

    def between(self, first: int, last: int) -> tuple[int, int]:
        """Operations and bytes strictly between two places."""
        return self.ops[last] - self.ops[first + 1], self.bytes[last] - self.bytes[first + 1]


def traffic_of(op: ir.Operation) -> int:
    """The bytes that a kernel reads and writes in device memory, if stated; 0 for anything else."""
    is_kernel = op.name == dm.KernelOp.OPERATION_NAME and "bytes" in op.attributes
    return op.attributes["bytes"].value if is_kernel else 0
