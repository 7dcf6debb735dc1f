"""Reading and rewriting the starts of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.errors import DmcError
from dmc.program import DEVICE

# On a movement: it is started where it stands, shortly before its result is read, and by dm-schedule alone earlier.
IN_TIME = "dm.in_time"

# The queue of a movement and, for queue comm, its communicator: work on one lane runs in the order of issue.
Lane = tuple[str, str]


def check_started(block: ir.Block) -> None:
    """Raises DmcError for a movement outside a start, which passes that move starts and waits would silently skip."""
    for view in block.operations:
        if isinstance(view, dm.MOVEMENTS):
            raise DmcError(view.operation, "is not started, so it has no start and wait to move", "run dm-async")


def starts_in(block: ir.Block) -> Iterator[dm.StartOp]:
    """The starts of a block, in order; the one just yielded may be erased."""
    return (view for view in list(block.operations) if isinstance(view, dm.StartOp))


def lane_of(start: dm.StartOp) -> Lane:
    """The in-order lane of a start; before dm-assign-queues all of queue comm is one."""
    channel = getattr(dm.movement_of(start), "channel", None)
    return start.queue.value, "" if channel is None else channel.value


def lane_name(start: dm.StartOp) -> str:
    """`comm@dp`, or the queue alone."""
    return "@".join(filter(None, lane_of(start)))


def is_offloaded(value: ir.Value) -> bool:
    """Whether the step has moved a value to host memory and moves it back."""
    if isinstance(value.owner, ir.Block):
        return False
    starts = [use.owner.opview for use in value.uses]
    movements = [dm.movement_of(each) for each in starts if isinstance(each, dm.StartOp)]
    return any(isinstance(each, dm.CopyOp) and each.target.value == DEVICE for each in movements)


def starts_of_returns(block: ir.Block) -> Iterator[dm.StartOp]:
    """The starts of a block that move back what is offloaded."""
    return (start for start in starts_in(block) if start.input is not None and is_offloaded(start.input))


def wait_of(start: dm.StartOp) -> dm.WaitOp:
    """The wait for a start's result."""
    (use,) = start.handle.uses
    return use.owner.opview


def with_tokens(start: dm.StartOp, tokens: Sequence[ir.Value]) -> dm.StartOp:
    """A start that also waits for `tokens`, replacing `start`, which is erased."""
    return _replaced(start, [*start.after, *tokens])


def without_tokens(start: dm.StartOp) -> dm.StartOp:
    """A start that waits for nothing but its operand, replacing `start`, which is erased."""
    return _replaced(start, [])


def _replaced(start: dm.StartOp, tokens: Sequence[ir.Value]) -> dm.StartOp:
    old = start.operation
    attributes = {name: old.attributes[name] for name in old.attributes}
    inputs = [] if start.input is None else [start.input]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(inputs), len(tokens)])
    types = [result.type for result in old.results]
    operands = [*inputs, *tokens]
    new = ir.Operation.create(
        old.name, types, operands, attributes, regions=1, loc=old.location, ip=ir.InsertionPoint(old)
    )
    old.regions[0].blocks[0].append_to(new.regions[0])
    for before, after in zip(old.results, new.results, strict=True):
        before.replace_all_uses_with(after)
    old.erase()
    return new.opview
