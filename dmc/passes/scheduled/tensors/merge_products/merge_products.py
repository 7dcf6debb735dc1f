"""dm-merge-products."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.requests.keeping import keeping_of
from dmc.analysis.requests.verbs import verbs_of
from dmc.passes.base import Pass
from dmc.passes.scheduled.tensors.merge_products.backward import merge_behind
from dmc.passes.scheduled.tensors.merge_products.forward import merge_before
from dmc.passes.scheduled.tensors.merge_products.side_by_side import SideBySide
from dmc.passes.shared.operands_first import operands_first
from dmc.passes.shared.unread import erase_unread
from dmc.plans.verbs import KeepApart
from dmc.step_function import find_step
from dmc.walk import walk


@dataclass(frozen=True)
class MergeProducts(Pass):
    """Merges products around attention that share a factor, as of separate layers for queries, keys and values.

    `attention(x·A, x·B, x·C)` becomes `attention` of slices of `x·[A B C]`, and the products with the gradients of the
    three become products with these side by side. Fewer and larger launches compute the same; a sum of three rounded
    products is rounded once.

    Only where little is copied for it: the kernels of attention read and write columns of wider matrices, the weights
    are cast in every step anyway, or gathered, then in narrow types, and their gradients are rows. Nothing else may
    read the columns, and the user's words about what is kept (`dm.keeping`) or apart (`dm.verbs`) must mean all of the
    products or none. On CUDA only, where composites stay whole.
    """

    name = "dm-merge-products"

    def run(self, module: ir.Module) -> None:
        side, words = SideBySide(), (*keeping_of(module), *verbs_of(module, KeepApart))
        composites = [op.opview for op in walk(find_step(module)) if isinstance(op.opview, dm.CompositeOp)]
        for op in composites:
            if op.kind.value == "attention":
                merge_before(op, side, words)
            elif op.kind.value == "attention_backward":
                merge_behind(op, side, words)
        for block in dict.fromkeys(op.operation.block for op in composites) if side.known else ():
            operands_first(block)
            erase_unread(block)
