"""dm-pack-concats."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.graph import Graph, Kind, step_graph
from dmc.dialect.plan import type_bytes
from dmc.passes.base import Pass
from dmc.passes.shared.reshapes import EXPAND, reshape
from dmc.program import ALIGNMENT
from dmc.step_function import find_step


@dataclass(frozen=True)
class PackConcats(Pass):
    """Turns concatenations along the outermost dimension into buckets, whose members are computed in place.

    `%y = tensor.concat dim(0) %a, %b` becomes `%flat = dm.pack %a, %b` and a reshape: the kernels that compute `%a` and
    `%b` write where `%y` lies, as the steps of a loop over time do. A member that cannot be placed there is copied.
    Only if every member but the last ends at an aligned byte, and each is computed, and in one concatenation only. On
    the CPU: kernels of dmc's own concatenate in what reads the result. Linear in the number of operations.
    """

    name = "dm-pack-concats"

    def run(self, module: ir.Module) -> None:
        step = find_step(module)
        found = [op for op in map(_operation, step.entry_block.operations) if op.name == "tensor.concat" and _fits(op)]
        if not found:
            return
        graph = step_graph(step, kinds_only=True)
        elsewhere = {graph.base(value) for value in graph.returned}
        for op in found:
            if _is_placed(graph, op, elsewhere):
                elsewhere |= _bases(graph, op)
                _own_constants(graph, op)
                _pack(op)


def _operation(view: ir.OpView) -> ir.Operation:
    return view.operation


def _fits(op: ir.Operation) -> bool:
    """Whether the members of a concatenation are one behind the other in its result, each at an aligned byte."""
    *members, _ = op.operands
    outside = prod(op.results[0].type.shape[: op.attributes["dim"].value])
    return outside == 1 and not any(type_bytes(value.type) % ALIGNMENT for value in members)


def _is_placed(graph: Graph, op: ir.Operation, elsewhere: set[ir.Value]) -> bool:
    """Whether the members of a concatenation can be computed where its result lies. elsewhere: what has its place."""
    if not elsewhere.isdisjoint(_bases(graph, op)):
        return False
    made = [value for value in op.operands if graph.kind_of(value) is not Kind.CONSTANT]
    is_once = len({graph.base(value) for value in made}) == len(made)
    return is_once and all(_is_computed(graph, value) for value in made)


def _is_computed(graph: Graph, value: ir.Value) -> bool:
    """Whether a value is all of what an operation computes."""
    base = graph.base(value)
    return graph.kind_of(base) is Kind.COMPUTE and type_bytes(base.type) == type_bytes(value.type)


def _bases(graph: Graph, op: ir.Operation) -> set[ir.Value]:
    """What is in memory of an operation's operands and its result."""
    values = [value for value in op.operands if graph.kind_of(value) is not Kind.CONSTANT]
    return {graph.base(value) for value in (*values, op.results[0])}


def _own_constants(graph: Graph, op: ir.Operation) -> None:
    """Computes the constants of a concatenation for it alone: they lie in one place."""
    for index, value in enumerate(op.operands):
        if graph.kind_of(value) is Kind.CONSTANT:
            with ir.InsertionPoint(op):
                op.operands[index] = graph.ops[graph.made_by[value]].clone().results[0]


def _pack(op: ir.Operation) -> None:
    whole = op.results[0].type
    flat = ir.RankedTensorType.get([prod(whole.shape)], whole.element_type)
    *offsets, _ = accumulate((prod(value.type.shape) for value in op.operands), initial=0)
    with op.location, ir.InsertionPoint(op):
        bucket = dm.pack(list(op.operands), result=flat, offsets=offsets).result
        if len(whole.shape) > 1:
            bucket = reshape(EXPAND, bucket, whole, [range(len(whole.shape))])
    op.results[0].replace_all_uses_with(bucket)
    op.erase()
