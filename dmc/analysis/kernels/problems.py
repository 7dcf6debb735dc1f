"""Composites as problems for `dmc.kernels`: alone, and in a kernel with views of the kernel's operands and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.analysis.kernels.column_sums import ColumnSums
from dmc.analysis.kernels.layouts import Layout, seen_through, written_through
from dmc.dialect import CompositeOp
from dmc.dialect.compute import is_absent
from dmc.dialect.kinds import traits_of
from dmc.errors import DmcError
from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import Parameter, Problem, TensorType, problem
from dmc.program.code import Place, Role
from dmc.program.sizes import element_bytes

# Kernels' pointers are multiples of this.
_ALIGNMENT = 16


@dataclass(frozen=True)
class PlacedProblem:
    """The computation of a kernel's body: a problem, and the places of its operands and results.

    Each place is in an operand ("read") or a result ("write") of the body, given by the first element's first byte; the
    strides are in the problem's types. Several may share one, like q, k and v in one projection.
    """

    problem: Problem
    operands: tuple[Place, ...]
    results: tuple[Place, ...]


@dataclass(frozen=True)
class _Lying:
    """The place of a value: in operand or result `index` of a body."""

    index: int
    layout: Layout

    def place(self, role: Role, value: ir.Value) -> Place:
        bytes_ = element_bytes(_dtype(value))
        return Place(role, self.index, self.layout.offset * bytes_, self.layout.span * bytes_)


def problem_of(op: CompositeOp) -> Problem:
    """The problem of a composite whose operands and results are dense."""
    operands, results = ([Layout.dense(value.type.shape) for value in some] for some in (op.inputs, op.outputs))
    return problem_with(op, operands, results)


def problem_with(
    op: CompositeOp, operands: Sequence[Layout], results: Sequence[Layout], sums: ColumnSums | None = None
) -> Problem:
    """The problem of a composite whose operands and results have these layouts.

    sums: a further result, over the rows of the matrix that the results make up; `sums_0`, `sums_1`, … are the first
    columns of each.
    """
    taken = tuple(_type(value, layout) for value, layout in zip(op.inputs, operands, strict=True))
    made = tuple(_type(value, layout) for value, layout in zip(wanted_results(op), results, strict=False))
    if sums is None:
        return problem(op.kind.value, taken, made, **dict(_parameters(op)))
    width = ir.RankedTensorType(sums.matrix.type).shape[-1]
    firsts = {f"sums_{i}": layout.offset for i, layout in enumerate(results[: len(made)])}
    return problem(op.kind.value, taken, (*made, TensorType("f32", (width,))), **dict(_parameters(op)), **firsts)


def wanted_results(op: CompositeOp) -> list[ir.Value]:
    """The results of its problem: all, except optional ones that are unused."""
    results = list(op.outputs)
    optional = results[len(results) - traits_of(op).optional :]
    return results if any(list(value.uses) for value in optional) else results[: len(results) - len(optional)]


def refusal(given: Problem) -> str | None:
    """Why no implementation supports a problem; None if one does."""
    try:
        implementation_of(given)
    except DmcError as error:
        return error.fact
    return None


def refusal_with(
    op: CompositeOp, operands: Sequence[Layout], results: Sequence[Layout], sums: ColumnSums | None = None
) -> str | None:
    """Why no implementation supports a composite with these layouts; None if one does."""
    is_padded = any(tuple(value.type.shape) != each.sizes for value, each in zip(op.outputs, results, strict=False))
    if is_padded and not traits_of(op).pads_rows:
        return "a result is padded"
    if sums is not None and not traits_of(op).sums_rows:
        return "its results are not added up"
    return refusal(problem_with(op, operands, results, sums))


def is_aligned(value: ir.Value, layout: Layout) -> bool:
    """Whether a view of an aligned tensor begins at an aligned address."""
    return layout.offset * element_bytes(_dtype(value)) % _ALIGNMENT == 0


def problem_of_body(body: func.FuncOp) -> PlacedProblem | None:
    """The problem of a function that contains one composite, and views of its own operands and results; it may also
    add up the rows of the matrix that the results make up.

    None for other functions, and if no implementation supports the problem.
    """
    *ops, terminator = [view.operation for view in body.entry_block.operations]
    composites = [op.opview for op in ops if op.name == CompositeOp.OPERATION_NAME]
    if len(composites) != 1:
        return None
    taken = _all(_read(value) for value in composites[0].inputs)
    wanted = wanted_results(composites[0])
    returned = list(terminator.operands)
    summed = {i: sums for i, value in enumerate(returned) if (sums := ColumnSums.of(value)) is not None}
    written = dict(_written([(i, value) for i, value in enumerate(returned) if i not in summed]))
    made = _all(written.pop(value, None) for value in wanted)
    # The rest of `written` is produced otherwise.
    if taken is None or made is None or written or len(summed) > 1:
        return None
    if any(returned[each.index] != sums.matrix for each in made for sums in summed.values()):
        return None
    given = [each.layout for each in taken], [each.layout for each in made], next(iter(summed.values()), None)
    if refusal_with(composites[0], *given) is not None:
        return None
    found = problem_with(composites[0], *given)
    reads = (each.place("read", value) for each, value in zip(taken, composites[0].inputs, strict=True))
    writes = [each.place("write", value) for each, value in zip(made, wanted, strict=True)]
    writes += [_Lying(i, Layout.dense(returned[i].type.shape)).place("write", returned[i]) for i in summed]
    return PlacedProblem(found, tuple(reads), tuple(writes))


def _read(value: ir.Value) -> _Lying | None:
    """The place of a value that is a view of an operand of the body."""
    if isinstance(value.owner, ir.Block):
        return _Lying(ir.BlockArgument(value).arg_number, Layout.dense(value.type.shape))
    op = value.owner.operation
    source = _read(op.operands[0]) if len(op.operands) else None
    layout = None if source is None else seen_through(op, source.layout)
    return None if source is None or layout is None else _Lying(source.index, layout)


def _written(returned: Sequence[tuple[int, ir.Value]]) -> Iterator[tuple[ir.Value, _Lying | None]]:
    """The values from which views derive the returned ones, and their places; None for one with two places."""
    pending = [(value, _Lying(i, Layout.dense(value.type.shape))) for i, value in returned]
    seen: set[ir.Value] = set()
    while pending:
        value, lying = pending.pop()
        parts = [] if isinstance(value.owner, ir.Block) else list(_parts(value.owner.operation, lying))
        pending += parts
        if not parts:
            yield value, None if value in seen else lying
            seen.add(value)


def _parts(op: ir.Operation, lying: _Lying) -> Iterator[tuple[ir.Value, _Lying]]:
    """The operands that a data-moving operation places in its result, and their required layouts."""
    operands = list(op.operands) if op.name == "tensor.concat" else list(op.operands)[:1]
    layouts = [written_through(op, i, lying.layout) for i in range(len(operands))]
    for operand, layout in zip(operands, layouts, strict=True):
        if layout is not None:
            yield operand, _Lying(lying.index, layout)


def _all(found: Iterator[_Lying | None]) -> list[_Lying] | None:
    every = list(found)
    known = [each for each in every if each is not None]
    return known if len(known) == len(every) else None


def _type(value: ir.Value, layout: Layout) -> TensorType:
    return TensorType(_dtype(value), layout.sizes, () if layout.is_dense else layout.strides)


def _dtype(value: ir.Value) -> str:
    return str(ir.RankedTensorType(value.type).element_type)


def _parameters(op: CompositeOp) -> Iterator[tuple[str, Parameter]]:
    for each in op.parameters:
        if not is_absent(each.attr):
            yield each.name, each.attr.value
