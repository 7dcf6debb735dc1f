"""Composites kept whole, as kernels that read and write through views of their operands and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dmc import dialect as dm
from dmc._mlir import func, ir, linalg, tensor
from dmc.analysis.kernels.column_sums import ColumnSums
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.kernels.layouts import Layout, inverse, permutation, seen_through, written_through
from dmc.analysis.kernels.problems import is_aligned, problem_with, refusal_with, wanted_results
from dmc.analysis.requests.verbs import roots_of
from dmc.analysis.storage.pieces import RESHAPES, is_view
from dmc.dialect.kinds import traits_of
from dmc.dialect.labels import module_path, put_kernel_label
from dmc.kernels.implementation import implementation_of
from dmc.passes.scheduled.form_kernels.bodies import SharedFunctions
from dmc.passes.shared.loops import copy_with
from dmc.plans.verbs import KeepApart

TRANSPOSE, SLICE, CONCAT, PAD = "linalg.transpose", "tensor.extract_slice", "tensor.concat", "tensor.pad"


@dataclass(frozen=True)
class _Seen:
    """A value of a composite as a view of `whole`; `ops`, in order, derive one from the other."""

    whole: ir.Value
    layout: Layout
    ops: tuple[ir.Operation, ...] = ()

    @staticmethod
    def itself(value: ir.Value) -> _Seen:
        return _Seen(value, Layout.dense(value.type.shape))


def form_whole_composites(step: func.FuncOp, functions: SharedFunctions, apart: Sequence[KeepApart] = ()) -> None:
    """Turns each composite of the step into a kernel.

    `%q = transpose(slice(%qkv))`, `%o = dm.composite(%q, …)`, `%y = transpose(%o)` become `%y = dm.kernel(%qkv, …)`,
    whose body holds all three, if the composite's implementation supports strided tensors. Results that are only
    concatenated become one result; what adds up its rows may be another. Other readers of a result that is read
    transposed transpose it back. apart: the modules with which nothing else shares a kernel.
    """
    for view in [op for op in step.entry_block.operations if isinstance(op, dm.CompositeOp)]:
        _Kernel(view, apart).form(functions)


class _Kernel:
    def __init__(self, op: dm.CompositeOp, apart: Sequence[KeepApart]) -> None:
        self.op, self.apart = op, apart
        self.operands: list[_Seen] = [_Seen.itself(value) for value in op.inputs]
        self.results: list[_Seen] = [_Seen.itself(value) for value in op.outputs]
        self.sums: ColumnSums | None = None

    def form(self, functions: SharedFunctions) -> None:
        for i, value in enumerate(self.op.inputs):
            self._take(self.operands, i, _sources(value))
        for i in range(len(self.results)):
            self._turn(i)
            self._pad(i)
        self._join()
        self._add_up()
        kernel = self._kernel(functions)
        before, behind = self._views()
        for old, new in zip(self._outputs(), kernel.outputs, strict=True):
            old.replace_all_uses_with(new)
        for op in reversed([*before, self.op.operation, *behind, *self._summing()]):
            if not any(list(result.uses) for result in op.results):
                op.erase()

    def _take(self, chosen: list[_Seen], index: int, ways: Iterable[_Seen]) -> bool:
        """Views an operand or result in the first of several ways that the implementation supports."""
        own = chosen[index]
        for way in ways:
            chosen[index] = way
            if is_aligned(way.whole, way.layout) and self._refusal() is None:
                return True
        chosen[index] = own
        return False

    def _refusal(self) -> str | None:
        return refusal_with(self.op, *self._layouts(), self.sums)

    def _layouts(self) -> tuple[list[Layout], list[Layout]]:
        return [each.layout for each in self.operands], [each.layout for each in self.results]

    def _summing(self) -> tuple[ir.Operation, ...]:
        """The operations that add up rows."""
        return self.sums.ops if self.sums is not None else ()

    def _turn(self, index: int) -> None:
        """Returns a result as its first transposition; other readers transpose it back."""
        value = self.op.outputs[index]
        found = next((use.owner.operation for use in value.uses if use.owner.name == TRANSPOSE), None)
        if found is not None and self._take(self.results, index, _written([(found, 0)])):
            turned = _turned(self.op.operation, value, permutation(found))
            self.results[index] = replace(self.results[index], whole=turned, ops=(turned.owner.operation,))

    def _pad(self, index: int) -> None:
        """Returns a result that is only read padded with its padding."""
        uses = list(self.op.outputs[index].uses)
        if len(uses) == 1 and uses[0].owner.name == PAD:
            self._take(self.results, index, _written([(uses[0].owner.operation, 0)]))

    def _join(self) -> None:
        """Returns results that are read only by, and make up, a concatenation as its result."""
        members: dict[ir.Operation, dict[int, _Seen]] = {}
        for i, each in enumerate(self.results):
            path = list(_to_concat(each))
            if path and path[-1][0].name == CONCAT:
                members.setdefault(path[-1][0], {}).update((i, way) for way in _written(path))
        for concat, joined in members.items():
            kept = self.results
            self.results = [joined.get(i, each) for i, each in enumerate(kept)]
            is_whole = len(joined) == len(concat.operands)
            aligned = all(is_aligned(each.whole, each.layout) for each in joined.values())
            if not is_whole or not aligned or self._refusal() is not None:
                self.results = kept

    def _add_up(self) -> None:
        """Returns the sums over the rows of the matrix that all results make up, which then need not be read again."""
        matrix, *others = self._outputs()
        self.sums = None if others else next(ColumnSums.readers(matrix), None)
        if self.sums is not None and (self._are_apart(self.sums.ops) or self._refusal() is not None):
            self.sums = None

    def _are_apart(self, ops: Iterable[ir.Operation]) -> bool:
        """Whether the plan keeps some of the operations apart from the composite."""
        own = roots_of(self.apart, module_path(self.op.location))
        return any(roots_of(self.apart, module_path(op.location)) != own for op in ops)

    def _outputs(self) -> list[ir.Value]:
        wholes = dict.fromkeys(each.whole for each in self.results[: len(wanted_results(self.op))])
        return [*wholes, *([] if self.sums is None else [self.sums.value])]

    def _views(self) -> tuple[list[ir.Operation], list[ir.Operation]]:
        """The operations before and after the composite that its kernel includes, in order."""
        before, behind = (
            dict.fromkeys(op for each in some for op in each.ops) for some in (self.operands, self.results)
        )
        # A concatenation follows all of its operands.
        return list(before), sorted(behind, key=lambda op: op.name == CONCAT)

    def _kernel(self, functions: SharedFunctions) -> dm.KernelOp:
        op, inputs, outputs = (
            self.op.operation,
            list(dict.fromkeys(each.whole for each in self.operands)),
            self._outputs(),
        )
        problem = problem_with(self.op, *self._layouts(), self.sums)
        cost = implementation_of(problem).cost(problem)
        with ir.InsertionPoint(op):
            kernel = dm.kernel(
                inputs,
                outputs=[value.type for value in outputs],
                body=functions.name(self._body(inputs, outputs, functions), problem.kind),
                flops=cost.flops,
                bytes=cost.bytes,
                loc=op.location,
            )
        put_kernel_label(kernel.operation, module_path(op.location))
        return kernel

    def _body(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], functions: SharedFunctions) -> func.FuncOp:
        kind = "matmul" if traits_of(self.op).is_product else "reduction"
        with self.op.location:
            function = functions.empty([value.type for value in inputs], [value.type for value in outputs], kind)
        values: dict[ir.Value, ir.Value] = dict(zip(inputs, function.entry_block.arguments, strict=True))
        before, behind = self._views()
        with ir.InsertionPoint(function.entry_block):
            for each in [*before, self.op.operation, *behind, *self._summing()]:
                _copy(each, values)
            func.ReturnOp([values[value] for value in outputs], loc=self.op.location)
        return function


def _sources(value: ir.Value) -> Iterator[_Seen]:
    """The values that contain this one as a view that would need a copy, innermost first."""
    ops: list[ir.Operation] = []
    found: list[_Seen] = []
    while not isinstance(value.owner, ir.Block) and value.owner.name in (*RESHAPES, TRANSPOSE, SLICE):
        ops.insert(0, value.owner.operation)
        value = ops[0].operands[0]
        layout: Layout | None = Layout.dense(value.type.shape)
        for op in ops:
            layout = None if layout is None else seen_through(op, layout)
        if layout is not None and not is_view(ops[0]):
            found.insert(0, _Seen(value, layout, tuple(ops)))
    yield from found


def _to_concat(result: _Seen) -> Iterator[tuple[ir.Operation, int]]:
    """The operations from a result, through reshapes, to the concatenation that is its only reader."""
    yield from ((op, 0) for op in result.ops)
    value = result.whole
    while len(uses := list(value.uses)) == 1:
        op = uses[0].owner.operation
        if op.name not in (*RESHAPES, CONCAT):
            return
        yield op, uses[0].operand_number
        if op.name == CONCAT:
            return
        value = op.results[0]


def _written(path: Sequence[tuple[ir.Operation, int]]) -> Iterator[_Seen]:
    """The strides of the operand of a path's first operation in the result of its last; None if there are none."""
    whole = path[-1][0].results[0]
    layout: Layout | None = Layout.dense(whole.type.shape)
    for op, index in reversed(path):
        layout = None if layout is None else written_through(op, index, layout)
    if layout is not None:
        yield _Seen(whole, layout, tuple(op for op, _ in path))


def _turned(op: ir.Operation, value: ir.Value, order: list[int]) -> ir.Value:
    """`value`, a result of `op`, transposed; all readers read that, directly or transposed back."""
    readers = [(use.owner.operation, use.operand_number) for use in value.uses]
    with op.location, ir.InsertionPoint.after(op):
        turned = _transposed(value, order)
        back = _transposed(turned, inverse(order))
    for reader, index in readers:
        if reader.name == TRANSPOSE and permutation(reader) == order:
            reader.results[0].replace_all_uses_with(turned)
            reader.erase()
        else:
            reader.operands[index] = back
    if not list(back.uses):
        back.owner.erase()
    return turned


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    type_ = ir.RankedTensorType(value.type)
    empty = tensor.empty([type_.shape[i] for i in order], type_.element_type)
    return linalg.transpose(value, outs=[empty], permutation=list(order)).results[0]


def _copy(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Copies an operation to the insertion point, with its destination and the constants that it reads."""
    for value in outer_reads(op):
        if value not in values:
            _copy(value.owner.operation, values)
    copy = copy_with(op, values)
    for name in [name for name in copy.attributes if name.startswith("dm.")]:
        del copy.attributes[name]
