"""V3 for buffers: their live ranges consist of existing commands."""

from __future__ import annotations

from dmc.errors import ProofError
from dmc.program import Program, accesses
from dmc.proof.order import Order
from dmc.proof.races import check_races

# The owner of all bytes when owners are unknown.
_SOMEBODY = frozenset({0})


def check_lives(program: Program, order: Order) -> None:
    """Raises ProofError for a buffer that is live at commands that do not exist.

    This happens when a command was removed but buffers still count it. The effect on the order of accesses is reported
    first, because it says what is missing.
    """
    count = len(program.commands)
    wrong = [buffer for buffer in program.buffers if not 0 <= buffer.first <= buffer.last < count]
    if not wrong:
        return
    touched = enumerate(map(accesses, program.commands))
    check_races(program, order, {i: ((_SOMEBODY,) * len(r), (_SOMEBODY,) * len(w)) for i, (r, w) in touched})
    buffer = max(wrong, key=lambda buffer: buffer.last)
    fact = f"is live from command {buffer.first} to {buffer.last}, but there are {count} commands, counted from 0"
    missing = buffer.last + 1 - count
    hint = f"put back the commands that are missing ({missing}), or plan the step again" if missing > 0 else ""
    raise ProofError("V3", f"rank {program.rank}, buffer '{buffer.label}'", fact, hint)
