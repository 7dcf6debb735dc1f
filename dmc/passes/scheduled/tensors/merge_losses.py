"""dm-merge-losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.composites import LOSS, LOSS_AND_GRADIENT, LOSS_GRADIENT
from dmc.passes.base import Pass
from dmc.passes.shared.loops import copy_with
from dmc.passes.shared.operands_first import operands_first
from dmc.step_function import find_step


@dataclass(frozen=True)
class MergeLosses(Pass):
    """Computes a loss and the gradient of its logits at once, where nothing of that gradient waits for the loss.

    `%loss, %level = composite(%logits, %target)`, `%g = composite(%dloss, %logits, %target, %level)` become `%loss,
    %level, %g = composite(%dloss, %logits, %target)`, whose kernel reads a row of logits from memory once: the second
    time it is in the cache. `%dloss`, such as one divided by the number of targets, is computed before.

    On CUDA only, where composites stay whole, and in the step itself, so behind dm-unroll-loops.
    """

    name = "dm-merge-losses"

    def run(self, module: ir.Module) -> None:
        block = find_step(module).entry_block
        known: dict[tuple[str, str], str] = {}
        merged = [
            _merge(view, module, known)
            for view in list(block.operations)
            if isinstance(view, dm.CompositeOp) and view.kind.value == LOSS_GRADIENT
        ]
        if any(merged):
            operands_first(block)


def _merge(gradient: dm.CompositeOp, module: ir.Module, known: dict[tuple[str, str], str]) -> bool:
    """Whether a gradient is now computed with its loss. What supports these apart supports them together.

    known: by the decompositions of both, the function that does what they do: micro-batches share it.
    """
    loss = _loss_of(gradient)
    if loss is None or _waits_for(gradient.inputs[0], loss.operation):
        return False
    pair = loss.decomposition.value, gradient.decomposition.value
    if pair not in known:
        known[pair] = _decomposition(module, loss, gradient)
    with ir.InsertionPoint(loss.operation), loss.operation.location:
        both = dm.composite(
            list(gradient.inputs[:3]),
            outputs=[value.type for value in (*loss.outputs, *gradient.outputs)],
            kind=LOSS_AND_GRADIENT,
            decomposition=known[pair],
            parameters={each.name: each.attr for each in loss.parameters},
        )
    for old, new in zip((*gradient.outputs, *loss.outputs), (both.outputs[2], *both.outputs[:2]), strict=True):
        old.replace_all_uses_with(new)
    gradient.operation.erase()
    loss.operation.erase()
    return True


def _loss_of(gradient: dm.CompositeOp) -> dm.CompositeOp | None:
    """The loss of the same logits, targets and parameters whose log-sum-exp a gradient reads."""
    _, logits, target, level = gradient.inputs
    loss = None if isinstance(level.owner, ir.Block) else level.owner.opview
    if not isinstance(loss, dm.CompositeOp) or loss.kind.value != LOSS:
        return None
    is_same = list(loss.inputs) == [logits, target] and loss.parameters == gradient.parameters
    return loss if is_same else None


def _waits_for(value: ir.Value, op: ir.Operation) -> bool:
    """Whether `value` is computed from a result of `op`, directly or through other operations."""
    # Of the block's order nothing is known: what was merged may stand before what it reads.
    pending, seen = [value], set[ir.Operation]()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ir.Block) or owner.operation in seen:
            continue
        if owner.operation == op:
            return True
        seen.add(owner.operation)
        pending += outer_reads(owner.operation)
    return False


def _decomposition(module: ir.Module, loss: dm.CompositeOp, gradient: dm.CompositeOp) -> str:
    """The name of a new function that computes what the decompositions of both do."""
    symbols = ir.SymbolTable(module.operation)
    first, second = (symbols[each.decomposition.value] for each in (loss, gradient))
    results = [value.type for value in (*loss.outputs, *gradient.outputs)]
    type_ = ir.FunctionType.get([value.type for value in gradient.inputs[:3]], results)
    with ir.InsertionPoint(module.body), gradient.operation.location:
        both = func.FuncOp(f"{first.name.value}_both", type_, visibility="private")
        dloss, logits, target = both.add_entry_block().arguments
    with ir.InsertionPoint(both.entry_block), both.location:
        total, level = _copy_of(first, (logits, target))
        func.ReturnOp([total, level, *_copy_of(second, (dloss, logits, target, level))])
    return symbols.insert(both).value


def _copy_of(function: func.FuncOp, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Copies a function's body to the insertion point, and returns what it returns."""
    values: dict[ir.Value, ir.Value] = dict(zip(function.entry_block.arguments, arguments, strict=True))
    *ops, terminator = (view.operation for view in function.entry_block.operations)
    for op in ops:
        copy_with(op, values)
    return [values[value] for value in terminator.operands]
