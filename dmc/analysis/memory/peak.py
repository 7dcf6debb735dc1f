"""The peak of the memory of `@step`, and its contents there, as text."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import func
from dmc.analysis.labels.storages import label_of_op
from dmc.analysis.memory.buffers import Held, buffers_of
from dmc.analysis.memory.packing import Block, live_bytes
from dmc.errors import MemoryCapError
from dmc.program import DEVICE
from dmc.program.labels import short
from dmc.stages import place_of

UNKNOWN = "-"
_SHOWN = 20  # the number of buffers named in the error


def over_the_cap(step: func.FuncOp, needed: int, cap: int, hint: str) -> MemoryCapError:
    """The error for a step, placed by dm-plan-memory, that needs more than `cap` bytes, with its contents at the
    peak."""
    fact = f"needs {needed:,} bytes of device memory, but the cap is {cap:,}; {describe_peak(step, _SHOWN)}"
    # The location of @step does not help: it is the line of its signature.
    place = place_of(step.operation.parent.operation)
    who = "the step" if place is None else f"the step of rank {place.index} along {place.axis}"
    return MemoryCapError(who, fact, hint, needed)


def peak_position(held: Sequence[Held]) -> int:
    """The first position of peak device memory use; 0 if none is used."""
    live = live_bytes([Block(each.length, each.first, each.last) for each in held if each.space == DEVICE])
    return int(live.argmax()) if len(live) else 0


def describe_peak(step: func.FuncOp, most: int) -> str:
    """The contents of device memory at the peak, largest first, at most this many lines.

    Raises DmcError if dm-plan-memory has not run.
    """
    held = [each for each in buffers_of(step) if each.space == DEVICE]
    position = peak_position(held)
    alive = [each for each in held if each.first <= position <= each.last]
    alive.sort(key=lambda each: (-each.length, each.offset))
    op = [view.operation for view in step.entry_block.operations][position]
    total = sum(each.length for each in alive)
    lines = [f"the peak is at {short(label_of_op(op)) or op.name} (operation {position} of @step): {total:,} bytes"]
    lines += [f"  {each.length:>15,}  {each.category:<13}  {each.label or UNKNOWN}" for each in alive[:most]]
    if rest := alive[most:]:
        lines.append(f"  {sum(each.length for each in rest):>15,}  {len(rest)} smaller ones")
    return "\n".join(lines)
