"""Inlines the decompositions of composites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dmc._mlir import func, ir, passmanager
from dmc.analysis.kernels.fusion.greedy import fuse
from dmc.analysis.kernels.graph import Graph, step_graph
from dmc.dialect import CompositeOp
from dmc.dialect.iree import fusion_barrier
from dmc.step_function import functions
from dmc.walk import walk

_COMPOSITE = CompositeOp.OPERATION_NAME
_OPEN = "builtin.module(inline{default-pipeline=},symbol-dce,canonicalize,cse,convert-elementwise-to-linalg)"


def call_decomposition(op: CompositeOp) -> None:
    """Replaces a composite by a call of its decomposition."""
    with ir.InsertionPoint(op.operation), op.location:
        call = func.CallOp([value.type for value in op.outputs], op.decomposition, list(op.inputs))
    for old, new in zip(op.outputs, call.results, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()


def open_composites(kernels: ir.Module, meanings: Iterable[ir.Operation]) -> None:
    """Replaces every composite in the functions of `kernels` by its decomposition, which is among `meanings`.

    Groups that would be several kernels in a step stay separate: IREE can make each one dispatch, but not all together.
    """
    whole = [each.operation for each in functions(kernels) if any(op.name == _COMPOSITE for op in walk(each))]
    if not whole:
        return
    opened = ir.Module.create(loc=kernels.operation.location)
    with ir.InsertionPoint(opened.body):
        for each in (*whole, *meanings):
            each.clone()
    for each in whole:
        each.erase()
    for op in [op for op in walk(opened.operation) if op.name == _COMPOSITE]:
        call_decomposition(op.opview)
    passmanager.PassManager.parse(_OPEN, kernels.context).run(opened.operation)
    with ir.InsertionPoint(kernels.body):
        for function in functions(opened):
            graph = step_graph(function)
            _keep_apart(graph, fuse(graph).groups)
            function.operation.clone()


def _keep_apart(graph: Graph, groups: Sequence[Sequence[int]]) -> None:
    """Puts a fusion barrier after values that one group of operations computes and another reads."""
    group_of = {number: i for i, group in enumerate(groups) for number in group}
    readers: dict[ir.Value, list[int]] = {}
    for number, values in enumerate(graph.reads):
        for value in values:
            readers.setdefault(value, []).append(number)
    reading = _reading_groups(graph, group_of, readers)
    for value, maker in graph.made_by.items():
        if maker not in group_of:
            continue
        others = [each for each in readers.get(value, ()) if reading[each] - {group_of[maker]}]
        if others:
            _replace(value, fusion_barrier(value), [graph.ops[each] for each in others])


def _reading_groups(
    graph: Graph, group_of: Mapping[int, int], readers: Mapping[ir.Value, Sequence[int]]
) -> dict[int, set[int]]:
    """The group of each operation; for one in no group, such as a view or a scalar, those of its readers."""
    reading: dict[int, set[int]] = {}
    # An operation follows all its operands.
    for number in reversed(range(len(graph.ops))):
        behind = (reading[each] for result in graph.ops[number].results for each in readers.get(result, ()))
        reading[number] = {group_of[number]} if number in group_of else set[int]().union(*behind)
    return reading


def _replace(old: ir.Value, new: ir.Value, ops: Iterable[ir.Operation]) -> None:
    """Replaces an operand of these operations, and of those nested in them."""
    for inner in (inner for op in ops for inner in walk(op)):
        for i, operand in enumerate(inner.operands):
            if operand == old:
                inner.operands[i] = new
