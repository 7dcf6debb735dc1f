"""What a step that IREE schedules was only lent, it leaves as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import stream

from dmc.errors import DmcError
from dmc.lowering.dispatch_access import binding_accesses

_WRITE = 2
_BRANCHES = ("cf.br", "cf.cond_br")


def check_kept_arguments(schedule: str) -> None:
    """Raises DmcError where a stream-level program writes an argument that it was not given to keep.

    IREE updates a tensor in its own memory where nothing reads it later, also one that is the caller's.
    """
    with ir.Context():
        module = ir.Module.parse(schedule)
        ops = [view.operation for view in module.body.operations]
        accesses = {_symbol(op): binding_accesses(op) for op in ops if op.name == "stream.executable"}
        for op in ops:
            if op.name == "util.func":
                _check(op, accesses)


def _check(function: ir.Operation, accesses: Mapping[str, Sequence[str]]) -> None:
    ops = [op for region in function.regions for block in region.blocks for op in _within(block)]
    lent: dict[ir.Value, int] = {}
    known = -1
    # Loops hand on what they were lent, so this goes on until nothing is found any more.
    while known < len(lent):
        known = len(lent)
        for op in ops:
            lent.update(_handed_on(op, lent))
    for op in ops:
        for number in (lent[value] for value in _written(op, accesses) if value in lent):
            fact = f"IREE writes argument {_name(function, number)} of the step, which it may only read"
            raise DmcError(op.name, fact, 'compile the step with executor="static", which makes a copy first')


def _within(block: ir.Block) -> Iterator[Any]:
    for view in block.operations:
        yield view
        for region in view.operation.regions:
            for inner in region.blocks:
                yield from _within(inner)


def _handed_on(view: Any, lent: dict[ir.Value, int]) -> dict[ir.Value, int]:
    """The values, beside those known, that are memory of arguments: each with the number of its argument."""
    op = view.operation
    match view:
        case stream.TensorImportOp():
            given = "consume" in op.attributes
            return {} if given else {view.result: ir.BlockArgument(view.source).arg_number}
        case stream.TimepointAwaitOp():
            pairs = zip(view.results_, view.resource_operands, strict=True)
        case stream.CmdExecuteOp():
            pairs = zip(view.body.blocks[0].arguments, view.resource_operands, strict=True)
        case _ if op.name in _BRANCHES:
            pairs = _branched(op)
        case _:
            pairs = ((result, operand) for result in op.results for operand in op.operands)
    return {new: lent[old] for new, old in pairs if old in lent and _is_memory(new)}


def _branched(op: ir.Operation) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The arguments of the blocks that a branch goes to, with their values."""
    operands = list(op.operands)[1:] if op.name == "cf.cond_br" else list(op.operands)
    for block in op.successors:
        count = len(block.arguments)
        yield from zip(block.arguments, operands[:count], strict=True)
        operands = operands[count:]


def _is_memory(value: ir.Value) -> bool:
    return str(value.type).startswith("!stream.resource")


def _written(view: Any, accesses: Mapping[str, Sequence[str]]) -> list[ir.Value]:
    match view:
        case stream.CmdDispatchOp():
            (entry,) = view.entry_points
            buffers = zip(view.resources, view.resource_accesses, accesses[entry.value[0]], strict=True)
            return [each for each, declared, done in buffers if declared.value & _WRITE or "w" in done]
        case stream.CmdFillOp() | stream.CmdCopyOp():
            return [view.target]
        case _:
            return []


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value


def _name(function: ir.Operation, number: int) -> str:
    named = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[number])
    return str(named["dm.name"]) if "dm.name" in named else str(number)
