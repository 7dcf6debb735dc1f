"""V8: no rank exceeds its memory cap, and an arena is as large as its contents."""

from __future__ import annotations

from collections.abc import Mapping

from dmc.errors import ProofError
from dmc.program import DEVICE, Buffer, Job, Program, aligned, device_bytes
from dmc.program.program import Space
from dmc.proof.story import told

# The number of the largest values named where a cap is exceeded.
_NAMED = 5


def check_memory(job: Job, caps: Mapping[Space, int]) -> None:
    """Raises ProofError for an arena above its cap (bytes by space), or larger or smaller than the extent of its
    buffers."""
    for program in (each.program for each in job.classes):
        for space, size in program.arenas.items():
            _check_arena(program, space, size)
            # The device also holds staged inputs.
            needed = device_bytes(program.arenas) if space == DEVICE else size
            if space in caps and needed > caps[space]:
                fact = f"has {needed} bytes; {caps[space]} are allowed. At the peak it holds {_peak(program, space)}"
                raise ProofError("V8", f"rank {program.rank}, arena {space}", fact, f"allow {needed} bytes")


def _check_arena(program: Program, space: Space, size: int) -> None:
    place = f"rank {program.rank}, arena {space}"
    reach = 0
    for buffer in _in(program, space):
        if buffer.range.offset < 0 or buffer.range.length < 1 or buffer.range.end > size:
            raise ProofError("V8", place, f"has {size} bytes, but '{buffer.label}' is at {told(buffer.range)}")
        reach = max(reach, buffer.range.end)
    if size > aligned(reach):
        raise ProofError("V8", place, f"has {size} bytes, of which only {reach} are ever used", "make it smaller")


def _in(program: Program, space: Space) -> list[Buffer]:
    return [buffer for buffer in program.buffers if buffer.range.space == space]


def _peak(program: Program, space: Space) -> str:
    """The largest of the buffers live at the peak."""
    change: dict[int, int] = {}
    buffers = _in(program, space)
    for buffer in buffers:
        change[buffer.first] = change.get(buffer.first, 0) + buffer.range.length
        change[buffer.last + 1] = change.get(buffer.last + 1, 0) - buffer.range.length
    live, most, peak = 0, -1, 0
    for index in sorted(change):
        live += change[index]
        if live > most:
            most, peak = live, index
    alive = [buffer for buffer in buffers if buffer.first <= peak <= buffer.last]
    alive.sort(key=lambda buffer: (-buffer.range.length, buffer.range.offset))
    named = ", ".join(f"'{buffer.label}' ({buffer.range.length} bytes)" for buffer in alive[:_NAMED])
    more = f" and {len(alive) - _NAMED} more" if len(alive) > _NAMED else ""
    return f"{most} bytes at command {peak}: {named}{more}"
