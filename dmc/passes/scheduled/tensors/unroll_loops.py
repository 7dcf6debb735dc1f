"""dm-unroll-loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.passes.shared.loops import copy_with
from dmc.step_function import find_step

LOOP = "scf.for"


@dataclass(frozen=True)
class UnrollLoops(Pass):
    """Fully unrolls the loops of `@step`, so that it becomes straight-line code.

    `%r = scf.for %i = %c0 to %c2 step %c1 iter_args(%x = %a) { yield f(%x, %i) }` becomes `%0 = f(%a, 0)`,
    `%r = f(%0, 1)`. A plan lists each kernel of a step, with its addresses, before the step runs. Linear in the
    size of the result.
    """

    name = "dm-unroll-loops"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a loop whose bounds are not constant."""
        pending = list(_loops(find_step(module).entry_block))
        while pending:
            # An unrolled body may contain loops again.
            pending += [op for op in _unroll(pending.pop()) if op.name == LOOP]


def _loops(block: ir.Block) -> Iterator[ir.Operation]:
    return (view.operation for view in block.operations if view.operation.name == LOOP)


def _unroll(loop: ir.Operation) -> list[ir.Operation]:
    """Replaces a loop by its iterations; returns their operations."""
    block = loop.regions[0].blocks[0]
    *body, terminator = [view.operation for view in block.operations]
    place, *arguments = block.arguments
    first, last, step = (_constant(loop, i) for i in range(3))
    carried = list(loop.operands)[3:]
    made: list[ir.Operation] = []
    for number in range(first, last, step):
        values: dict[ir.Value, ir.Value] = dict(zip(arguments, carried, strict=True))
        values[place] = _number(loop, place.type, number)
        with ir.InsertionPoint(loop):
            made += [copy_with(op, values) for op in body]
        carried = [values.get(value, value) for value in terminator.operands]
    for result, value in zip(loop.results, carried, strict=True):
        result.replace_all_uses_with(value)
    loop.erase()
    return made


def _constant(loop: ir.Operation, index: int) -> int:
    value = loop.operands[index]
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        what = ("first place", "last place", "step")[index]
        raise DmcError(loop, f"its {what} is not a constant", "run canonicalize, or give the loop a fixed length")
    return ir.IntegerAttr(value.owner.attributes["value"]).value


def _number(loop: ir.Operation, type_: ir.Type, number: int) -> ir.Value:
    attributes = {"value": ir.IntegerAttr.get(type_, number)}
    with loop.location, ir.InsertionPoint(loop):
        return ir.Operation.create("arith.constant", results=[type_], attributes=attributes).results[0]
