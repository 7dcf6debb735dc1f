"""The position at which `@step` holds most, and what it holds there, as text."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import func
from dmc.analysis.labels.storages import label_of_op
from dmc.analysis.memory.buffers import Held, buffers_of
from dmc.analysis.memory.packing import Block, live_bytes
from dmc.analysis.storage.storages import DEVICE
from dmc.errors import DmcError
from dmc.program.labels import short

UNKNOWN = "-"
_SHOWN = 20  # so many things are named in a refusal


def over_the_cap(step: func.FuncOp, needed: int, cap: int, hint: str) -> DmcError:
    """The refusal of a step, placed by dm-plan-memory, that needs more than `cap` bytes; with what it holds at most."""
    fact = f"needs {needed:,} bytes of device memory, but the cap is {cap:,}; {describe_peak(step, _SHOWN)}"
    # Where @step stands in some text helps nobody: its line is that of its signature.
    return DmcError("the step", fact, hint)


def peak_position(held: Sequence[Held]) -> int:
    """The first position at which the most bytes of device memory are in use; 0 if none are."""
    live = live_bytes([Block(each.length, each.first, each.last) for each in held if each.space == DEVICE])
    return int(live.argmax()) if len(live) else 0


def describe_peak(step: func.FuncOp, most: int) -> str:
    """What the step holds in device memory where it holds most, largest first, at most so many lines.

    Raises DmcError where dm-plan-memory did not run.
    """
    held = [each for each in buffers_of(step) if each.space == DEVICE]
    position = peak_position(held)
    alive = [each for each in held if each.first <= position <= each.last]
    alive.sort(key=lambda each: (-each.length, each.offset))
    op = [view.operation for view in step.entry_block.operations][position]
    total = sum(each.length for each in alive)
    lines = [f"most is held at {short(label_of_op(op)) or op.name} (operation {position} of @step): {total:,} bytes"]
    lines += [f"  {each.length:>15,}  {each.category:<13}  {each.label or UNKNOWN}" for each in alive[:most]]
    if rest := alive[most:]:
        lines.append(f"  {sum(each.length for each in rest):>15,}  {len(rest)} smaller ones")
    return "\n".join(lines)
