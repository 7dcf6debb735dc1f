"""Sums on a CPU, in f64: one after another, which is the order of IREE's loops, sums in f32 lose digits with each term.

PyTorch adds up in f32, in a tree. A sum in f64 is exact but for its last rounding, and takes as long where memory is
what a loop waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dmc._mlir import arith, ir, linalg, tensor
from dmc.rewriting.passes import Pass
from dmc.walk import walk

_GENERIC, _ADD = "linalg.generic", "arith.addf"
# So few terms lose no more than a tree of them.
_FEW = 8


@dataclass(frozen=True)
class WidenSums(Pass):
    """Makes `sum x : f32`, over whole operands of more than `_FEW` terms, `truncf (sum (extf x) : f64)`.

    Products of matrices and convolutions, none of whose operands has all loops, are left.
    """

    name = "dm-widen-sums"

    def run(self, module: ir.Module) -> None:
        for op in [op for op in walk(module.operation) if op.name == _GENERIC and _is_plain(op)]:
            if sums := [number for number in range(len(op.results)) if _is_sum(op, number)]:
                _widen(op, sums)


def _is_plain(op: ir.Operation) -> bool:
    """Whether it reduces many elements of an operand that each iteration reads another one of."""
    kinds = ["reduction" in str(kind) for kind in op.attributes["iterator_types"]]
    maps = [each.value for each in op.attributes["indexing_maps"]]
    inputs = list(zip(op.operands, maps, strict=True))[: len(op.operands) - len(op.results)]
    for operand, map_ in inputs:
        places = _places(map_)
        if sorted(places) == list(range(len(kinds))) and len(places) == len(map_.results):
            sizes = [size for place, size in zip(places, operand.type.shape, strict=True) if kinds[place]]
            return bool(sizes) and prod(sizes) > _FEW
    return False


def _places(map_: ir.AffineMap) -> list[int]:
    """The loop that walks along each dimension, as far as there is one."""
    return [each.position for each in map_.results if isinstance(each, ir.AffineDimExpr)]


def _is_sum(op: ir.Operation, number: int) -> bool:
    """Whether a result is a sum in f32: a term added to the sum before, which nothing else reads."""
    if str(op.results[number].type.element_type) != "f32":
        return False
    before, total = _sum(op, number)
    if isinstance(total.owner, ir.Block) or total.owner.operation.name != _ADD:
        return False
    readers = [use.owner.operation for use in before.uses]
    return readers == [total.owner.operation] and len(list(total.uses)) == 1


def _sum(op: ir.Operation, number: int) -> tuple[ir.Value, ir.Value]:
    """The sum before a term, and behind it."""
    block = op.regions[0].blocks[0]
    inputs = len(op.operands) - len(op.results)
    return block.arguments[inputs + number], block.operations[len(block.operations) - 1].operands[number]


def _widen(op: ir.Operation, sums: list[int]) -> None:
    inputs, f64 = len(op.operands) - len(op.results), ir.F64Type.get()
    types = [each.type for each in op.results]
    operands = list(op.operands)
    with op.location, ir.InsertionPoint(op):
        for number in sums:
            types[number] = ir.RankedTensorType.get(types[number].shape, f64)
            operands[inputs + number] = _wide(operands[inputs + number], types[number])
        attributes = {name: op.attributes[name] for name in op.attributes}
        new = ir.Operation.create(_GENERIC, types, operands, attributes, regions=1)
    for number in sums:
        _widen_body(op, number, f64)
    op.regions[0].blocks[0].append_to(new.regions[0])
    with op.location, ir.InsertionPoint.after(new):
        results = [
            arith.truncf(old.type, each) if number in sums else each
            for number, (old, each) in enumerate(zip(op.results, new.results, strict=True))
        ]
    for old, result in zip(op.results, results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()


def _widen_body(op: ir.Operation, number: int, f64: ir.Type) -> None:
    before, total = _sum(op, number)
    last = total.owner.operation
    (term,) = [each for each in last.operands if each != before]
    before.set_type(f64)
    with last.location, ir.InsertionPoint(last):
        total.replace_all_uses_with(arith.addf(before, arith.extf(f64, term)))
    last.erase()


def _wide(initial: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The initial values of sums in f64."""
    fill = initial.owner
    if isinstance(fill, ir.Block) or fill.operation.name != "linalg.fill":
        return arith.extf(type_, initial)
    number = arith.extf(type_.element_type, fill.operation.operands[0])
    return linalg.fill(number, outs=[tensor.empty(type_.shape, type_.element_type)])
