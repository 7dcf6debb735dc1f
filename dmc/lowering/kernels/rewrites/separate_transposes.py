"""dm-separate-transposes"""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.dialect.iree import fusion_barrier
from dmc.rewriting.passes import Pass
from dmc.walk import walk


@dataclass(frozen=True)
class SeparateTransposes(Pass):
    """Puts a fusion barrier between a loop that has, or may get, several results, and the transpose of one.

    `transpose(loop(x)#0)` becomes `transpose(barrier(loop(x)#0))`. IREE would transpose the result inside the loop, but
    forgets its other results (`iree-global-opt-propagate-linalg-transpose`), and crashes later. Loops get several
    results when IREE fuses them with a producer that has other readers.
    """

    name = "dm-separate-transposes"

    def run(self, module: ir.Module) -> None:
        for op in [op for op in walk(module.operation) if _is_transpose(op)]:
            if _comes_of_several(op.operands[0]):
                op.operands[0] = fusion_barrier(op.operands[0])


def _is_transpose(op: ir.Operation) -> bool:
    """Whether IREE treats it as one: a loop that permutes elements is."""
    if op.name == "linalg.transpose":
        return True
    if op.name != "linalg.generic" or len(op.operands) != 2 or len(op.regions[0].blocks[0].operations) != 1:
        return False
    source, target = (ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"])
    return source.is_permutation and target.is_permutation and source != target


def _comes_of_several(value: ir.Value) -> bool:
    """Whether a loop that computes the value has several results, or one with several readers."""
    todo, seen = [value], set[ir.Value]()
    while todo:
        current = todo.pop()
        if current in seen or isinstance(current.owner, ir.Block):
            continue
        seen.add(current)
        op = current.owner.operation
        if op.name == "linalg.generic" and (len(op.results) > 1 or len(list(current.uses)) > 1):
            return True
        todo += op.operands
    return False
