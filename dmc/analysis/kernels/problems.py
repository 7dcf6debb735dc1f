"""Composites as problems for `dmc.kernels`: alone, and in a kernel with views of the kernel's operands and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.analysis.kernels.layouts import Layout, seen_through, written_through
from dmc.dialect import CompositeOp
from dmc.errors import DmcError
from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import ITEM_BYTES, Parameter, Problem, TensorType, problem
from dmc.program.code import Place, Role

# How many results at the end a problem leaves out where nothing reads them.
_OPTIONAL_RESULTS = {"attention_backward": 1}
# Composites whose kernels write zeros behind each row of a result that is padded.
_PADDED_RESULTS = frozenset(("softmax_cross_entropy_backward",))
# Pointers that kernels take are multiples of this.
_ALIGNMENT = 16


@dataclass(frozen=True)
class PlacedProblem:
    """What the body of a kernel computes: a problem, and where its operands and results lie.

    Each place is in an operand ("read") or a result ("write") of the body, from its first element's first byte on; the
    strides of the problem's types lead from there. Several of them may lie in one, as q, k and v in one projection.
    """

    problem: Problem
    operands: tuple[Place, ...]
    results: tuple[Place, ...]


@dataclass(frozen=True)
class _Lying:
    """Where a value lies: in operand or result `index` of a body."""

    index: int
    layout: Layout

    def place(self, role: Role, value: ir.Value) -> Place:
        bytes_ = ITEM_BYTES[_dtype(value)]
        return Place(role, self.index, self.layout.offset * bytes_, self.layout.span * bytes_)


def problem_of(op: CompositeOp) -> Problem:
    """The problem of a composite whose operands and results are dense."""
    operands, results = ([Layout.dense(value.type.shape) for value in some] for some in (op.inputs, op.outputs))
    return problem_with(op, operands, results)


def problem_with(op: CompositeOp, operands: Sequence[Layout], results: Sequence[Layout]) -> Problem:
    """The problem of a composite whose operands and results lie so in whatever they are views of."""
    taken = tuple(_type(value, layout) for value, layout in zip(op.inputs, operands, strict=True))
    made = tuple(_type(value, layout) for value, layout in zip(wanted_results(op), results, strict=False))
    return problem(op.kind.value, taken, made, **dict(_parameters(op)))


def wanted_results(op: CompositeOp) -> list[ir.Value]:
    """What its problem gives: all results, but optional ones that nothing reads."""
    results = list(op.outputs)
    optional = results[len(results) - _OPTIONAL_RESULTS.get(op.kind.value, 0) :]
    return results if any(list(value.uses) for value in optional) else results[: len(results) - len(optional)]


def refusal(given: Problem) -> str | None:
    """Why no implementation takes a problem; None where one does."""
    try:
        implementation_of(given)
    except DmcError as error:
        return error.fact
    return None


def refusal_with(op: CompositeOp, operands: Sequence[Layout], results: Sequence[Layout]) -> str | None:
    """Why no implementation takes a composite whose operands and results lie so; None where one does."""
    is_padded = any(tuple(value.type.shape) != each.sizes for value, each in zip(op.outputs, results, strict=False))
    if is_padded and op.kind.value not in _PADDED_RESULTS:
        return "a result is padded"
    return refusal(problem_with(op, operands, results))


def is_aligned(value: ir.Value, layout: Layout) -> bool:
    """Whether a view of a tensor begins where a kernel's pointer may point to, if the tensor does."""
    return layout.offset * ITEM_BYTES[_dtype(value)] % _ALIGNMENT == 0


def problem_of_body(body: func.FuncOp) -> PlacedProblem | None:
    """The problem of a function that holds one composite, and views of its own operands and results beside it.

    None for another function, and where no implementation takes the problem.
    """
    *ops, terminator = [view.operation for view in body.entry_block.operations]
    composites = [op.opview for op in ops if op.name == CompositeOp.OPERATION_NAME]
    if len(composites) != 1:
        return None
    taken = _all(_read(value) for value in composites[0].inputs)
    wanted = wanted_results(composites[0])
    written = dict(_written(list(terminator.operands)))
    made = _all(written.pop(value, None) for value in wanted)
    # What is left in `written` comes of something else.
    if taken is None or made is None or written:
        return None
    layouts = [each.layout for each in taken], [each.layout for each in made]
    if refusal_with(composites[0], *layouts) is not None:
        return None
    found = problem_with(composites[0], *layouts)
    reads = (each.place("read", value) for each, value in zip(taken, composites[0].inputs, strict=True))
    writes = (each.place("write", value) for each, value in zip(made, wanted, strict=True))
    return PlacedProblem(found, tuple(reads), tuple(writes))


def _read(value: ir.Value) -> _Lying | None:
    """Where a value lies that is a view of an operand of the body."""
    if isinstance(value.owner, ir.Block):
        return _Lying(ir.BlockArgument(value).arg_number, Layout.dense(value.type.shape))
    op = value.owner.operation
    source = _read(op.operands[0]) if len(op.operands) else None
    layout = None if source is None else seen_through(op, source.layout)
    return None if source is None or layout is None else _Lying(source.index, layout)


def _written(returned: Sequence[ir.Value]) -> Iterator[tuple[ir.Value, _Lying | None]]:
    """The values of which the returned ones are made by views, and where each lies; None for one that is in two."""
    pending = [(value, _Lying(i, Layout.dense(value.type.shape))) for i, value in enumerate(returned)]
    seen: set[ir.Value] = set()
    while pending:
        value, lying = pending.pop()
        parts = [] if isinstance(value.owner, ir.Block) else list(_parts(value.owner.operation, lying))
        pending += parts
        if not parts:
            yield value, None if value in seen else lying
            seen.add(value)


def _parts(op: ir.Operation, lying: _Lying) -> Iterator[tuple[ir.Value, _Lying]]:
    """The operands of which an operation that only moves elements makes its result, and where they have to lie."""
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
        # An optional operand that is not given is a flag.
        if not isinstance(each.attr, ir.UnitAttr):
            yield each.name, each.attr.value
