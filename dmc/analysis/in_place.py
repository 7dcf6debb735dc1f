"""State that is written in place is read before it is written, and the backend can see it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dmc._mlir import func, ir
from dmc.analysis.views import is_of_argument
from dmc.dialect.iree import FUSION_BARRIER
from dmc.errors import DmcError
from dmc.step_function import Port, arguments, find_step
from dmc.walk import reads

_HINT = "let the new value be computed from what reads the old one, as dm-pack-state does with its fence"


def verify_in_place(module: ir.Module) -> None:
    """Raises DmcError where a state tensor may be read after it was overwritten.

    A tied argument gives its memory to its new value; a view of an arena is in the arena's memory. The backend keeps no
    order between readers and the writer but that of data. So whatever reads the old value, or what was computed from
    it and has not been in memory since (behind a barrier to fusion), must be among what the new value is computed
    from. The writer itself reads the old value as the argument: a view it might read at places already written.

    Sets of tied arguments are integers with a bit for each, so that time is linear in the number of operations.
    """
    step = find_step(module)
    *body, terminator = [view.operation for view in step.entry_block.operations]
    ports = _changed(step, terminator)
    writes: defaultdict[ir.Operation, int] = defaultdict(int)
    for bit, (_, new) in enumerate(ports):
        writes[new.owner.operation] |= 1 << bit
    needed = _needed(body, writes)
    holds = _memory(step, [port for port, _ in ports])
    tied = {step.arguments[port.index] for port, _ in ports}
    for op in body:
        own, values = writes[op], list(reads(op))
        read = _union(holds[value] for value in values)
        late = (read & ~own & ~needed[op]) | (own & _union(holds[value] for value in values if value not in tied))
        if late:
            port, _ = ports[late.bit_length() - 1]
            raise DmcError(op, f"may read '{port.name}' after its new value is written there", _HINT)
        # A barrier behind a mere view leaves the value where it is.
        if op.name != FUSION_BARRIER or is_of_argument(op.operands[0]):
            holds.update(dict.fromkeys(op.results, read & ~own))


def _changed(step: func.FuncOp, terminator: ir.Operation) -> list[tuple[Port, ir.Value]]:
    """The tied arguments and their new values, without those that stay as they are."""
    changed: list[tuple[Port, ir.Value]] = []
    for port in arguments(step):
        if port.tie is None or (new := terminator.operands[port.tie]) == step.arguments[port.index]:
            continue
        if isinstance(new.owner, ir.Block):
            fact = f"gives '{port.name}' the value of another argument, which nothing orders before its own change"
            raise DmcError(terminator, fact, "let an operation compute the new value")
        changed.append((port, new))
    return changed


def _memory(step: func.FuncOp, ports: list[Port]) -> defaultdict[ir.Value, int]:
    """For each argument the tied arguments in whose memory it is: itself, or the arena of which it is a view."""
    by_name = {port.name: step.arguments[port.index] for port in arguments(step)}
    holds: defaultdict[ir.Value, int] = defaultdict(int)
    for bit, port in enumerate(ports):
        for value in (step.arguments[port.index], *(by_name[name] for name in port.members if name in by_name)):
            holds[value] |= 1 << bit
    return holds


def _needed(body: list[ir.Operation], writes: dict[ir.Operation, int]) -> defaultdict[ir.Operation, int]:
    """For each operation the tied arguments whose new values are computed from its results, at any distance."""
    needed: defaultdict[ir.Operation, int] = defaultdict(int)
    for op in reversed(body):
        wanted = needed[op] | writes.get(op, 0)
        for value in reads(op):
            if not isinstance(value.owner, ir.Block):
                needed[value.owner.operation] |= wanted
    return needed


def _union(sets: Iterator[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union
