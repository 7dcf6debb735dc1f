"""State that is written in place is read before it is written, and the backend can see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmc._mlir import func, ir
from dmc.dialect.iree import FUSION_BARRIER
from dmc.errors import DmcError
from dmc.step_function import arguments, find_step
from dmc.walk import walk

_HINT = "let the new value be computed from what reads the old one, as dm-pack-state does with its fence"


def verify_in_place(module: ir.Module) -> None:
    """Raises DmcError where a state tensor may be read after it was overwritten.

    A tied argument gives its memory to its new value; a view of an arena is in the arena's memory. The backend keeps no
    order between readers and the writer but that of data. So whatever reads the old value, or what was computed from
    it and has not been in memory since (behind a barrier to fusion), must be among what the new value is computed
    from.
    """
    step = find_step(module)
    ports = arguments(step)
    (terminator,) = [op.operation for op in step.entry_block.operations if op.operation.name == "func.return"]
    for port in ports:
        if port.tie is None:
            continue
        old = [step.arguments[other.index] for other in ports if other == port or other.name in port.members]
        new = terminator.operands[port.tie].owner
        if isinstance(new, ir.Block):
            continue
        earlier = _needed_by(new.operation)
        for reader in _readers(step, old, new.operation):
            if reader not in earlier:
                raise DmcError(reader, f"may read '{port.name}' after its new value is written there", _HINT)


def _readers(step: func.FuncOp, old: Sequence[ir.Value], writer: ir.Operation) -> list[ir.Operation]:
    """The operations, but for `writer`, that may become part of a kernel that reads one of `old`."""
    tainted = set(old)
    readers: list[ir.Operation] = []
    for view in step.entry_block.operations:
        op = view.operation
        if op != writer and any(value in tainted for value in _reads(op)):
            readers.append(op)
            if op.name != FUSION_BARRIER:
                tainted.update(op.results)
    return readers


def _needed_by(writer: ir.Operation) -> set[ir.Operation]:
    """The operations whose results `writer` is computed from, at any distance."""
    found: set[ir.Operation] = set()
    waiting = [writer]
    while waiting:
        for value in _reads(waiting.pop()):
            if isinstance(value.owner, ir.Block):
                continue
            owner = _in_body(value.owner.operation)
            if owner not in found and owner != writer:
                found.add(owner)
                waiting.append(owner)
    return found


def _in_body(op: ir.Operation) -> ir.Operation:
    """The operation of the function's body that holds `op`."""
    while op.parent is not None and op.parent.name != "func.func":
        op = op.parent.operation
    return op


def _reads(op: ir.Operation) -> Iterator[ir.Value]:
    return (operand for inner in walk(op) for operand in inner.operands)
