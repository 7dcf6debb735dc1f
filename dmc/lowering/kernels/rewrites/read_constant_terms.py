"""Reductions of what no operand decides: constants, and functions of a loop's index."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import arith, ir, linalg, tensor
from dmc.dialect.iree import fusion_barrier
from dmc.rewriting.passes import Pass
from dmc.step_function import functions

_GENERIC = "linalg.generic"
_EQUAL = arith.CmpIPredicate.eq


@dataclass(frozen=True)
class ReadConstantTerms(Pass):
    """Makes every term of a reduction depend on memory along the dimensions that are reduced.

    `sum over i of f(i)` becomes `sum over i of (zero[i] == 0 ? f(i) : zero[i])`. IREE's code for CPUs takes a term
    without operands for one that is not reduced, and gives the last of them instead of their sum, also where it finds
    out only once loops are fused. Terms of the function's arguments are left.
    """

    name = "dm-read-constant-terms"

    def run(self, module: ir.Module) -> None:
        for function in functions(module):
            decided: set[ir.Value] = set(function.entry_block.arguments)
            for op in [view.operation for view in function.entry_block.operations]:
                results = _decided_results(op, decided)
                constant = [number for number, is_decided in enumerate(results) if not is_decided]
                loop = _reading(op, constant) if op.name == _GENERIC and _reduced(op) and constant else op
                decided.update(result for result, is_decided in zip(loop.results, results, strict=True) if is_decided)


def _decided_results(op: ir.Operation, decided: set[ir.Value]) -> list[bool]:
    """Which results depend on these values."""
    if op.name != _GENERIC:
        return [any(each in decided for each in op.operands)] * len(op.results)
    block = op.regions[0].blocks[0]
    inner = {argument for argument, value in zip(block.arguments, op.operands, strict=True) if value in decided}
    for each in [view.operation for view in block.operations]:
        if any(value in inner for value in each.operands):
            inner.update(each.results)
    return [value in inner for value in block.operations[len(block.operations) - 1].operands]


def _term(total: ir.Value, before: ir.Value) -> int | None:
    """The operand of the last operation that is added to what was summed up before."""
    if isinstance(total.owner, ir.Block):
        return None
    operands = list(total.owner.operation.operands)
    return 1 - operands.index(before) if len(operands) == 2 and before in operands else None


def _reduced(op: ir.Operation) -> list[int]:
    return [number for number, kind in enumerate(op.attributes["iterator_types"]) if "reduction" in str(kind)]


def _reading(op: ir.Operation, numbers: list[int]) -> ir.Operation:
    """The same loop, with an operand of zeros along what it reduces, on which the terms of these results depend."""
    maps, inputs = list(op.attributes["indexing_maps"]), len(op.operands) - len(op.results)
    loops = _reduced(op)
    with op.location, ir.InsertionPoint(op):
        zeros = _zeros(op, loops)
        along = ir.AffineMap.get(
            len(op.attributes["iterator_types"]), 0, [ir.AffineDimExpr.get(each) for each in loops]
        )
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes["indexing_maps"] = ir.ArrayAttr.get([*maps[:inputs], ir.AffineMapAttr.get(along), *maps[inputs:]])
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([inputs + 1, len(op.results)])
        operands = [*list(op.operands)[:inputs], zeros, *list(op.operands)[inputs:]]
        new = ir.Operation.create(op.name, [each.type for each in op.results], operands, attributes, regions=1)
    block = op.regions[0].blocks[0]
    block.append_to(new.regions[0])
    zero = _insert_argument(block, inputs, zeros.type.element_type, op.location)
    for number in numbers:
        total = block.operations[len(block.operations) - 1].operands[number]
        _let_depend(total, block.arguments[inputs + 1 + number], zero)
    for before, after in zip(op.results, new.results, strict=True):
        before.replace_all_uses_with(after)
    op.erase()
    return new


def _let_depend(total: ir.Value, before: ir.Value, zero: ir.Value) -> None:
    """Lets the term of a sum depend on a number that is zero."""
    if (place := _term(total, before)) is None:
        return
    last = total.owner.operation
    with last.location, ir.InsertionPoint(last):
        term = last.operands[place]
        is_zero = arith.cmpi(_EQUAL, zero, arith.constant(zero.type, 0))
        last.operands[place] = arith.select(is_zero, term, _converted(zero, term.type))


def _zeros(op: ir.Operation, loops: list[int]) -> ir.Value:
    sizes = _sizes(op)
    byte = ir.IntegerType.get_signless(8)
    empty = tensor.empty([sizes[each] for each in loops], byte)
    return fusion_barrier(linalg.fill(arith.constant(byte, 0), outs=[empty]))


def _sizes(op: ir.Operation) -> dict[int, int]:
    """The size of each loop, from the operands that it walks along."""
    sizes: dict[int, int] = {}
    for operand, map_ in zip(op.operands, op.attributes["indexing_maps"], strict=True):
        for result, size in zip(map_.value.results, operand.type.shape, strict=True):
            if isinstance(result, ir.AffineDimExpr):
                sizes[result.position] = size
    return sizes


def _insert_argument(block: ir.Block, place: int, type_: ir.Type, location: ir.Location) -> ir.Value:
    """A new argument of a block. Arguments can only be appended: those behind it follow again."""
    after = len(block.arguments) - place
    new = block.add_argument(type_, location)
    for _ in range(after):
        old = block.arguments[place]
        old.replace_all_uses_with(block.add_argument(old.type, location))
        block.erase_argument(place)
    return new


def _converted(zero: ir.Value, type_: ir.Type) -> ir.Value:
    if isinstance(type_, ir.FloatType):
        return arith.sitofp(type_, zero)
    width = ir.IntegerType(type_).width
    return zero if width == 8 else arith.extsi(type_, zero) if width > 8 else arith.trunci(type_, zero)
