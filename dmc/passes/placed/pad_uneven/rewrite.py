"""A function with padding, as its flow says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dmc._mlir import func, ir
from dmc.analysis.loops.loops import MAX, MIN, SUM
from dmc.analysis.loops.rules import COMPOSITE, captured
from dmc.analysis.loops.shape_classes import Cuts
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding.decisions import LOOP, is_decided, key_of
from dmc.analysis.sharding.pins import PIN
from dmc.dialect.build import i64_array
from dmc.dialect.paddings import OWN_SIZES
from dmc.passes.placed.pad_uneven.build import chosen_inside, number_for
from dmc.passes.placed.pad_uneven.facts import terms
from dmc.passes.placed.pad_uneven.flow import Flow
from dmc.passes.placed.pad_uneven.versions import Versions
from dmc.passes.placed.pad_uneven.work import Work
from dmc.passes.shared.local_ops import PLACES, retype
from dmc.passes.shared.smaller_functions import shrink
from dmc.placement.pads import Pads, padded_shape
from dmc.step_function import functions, symbol

Functions = dict[str, func.FuncOp]
# By function, the padding of its arguments and results.
Key = tuple[str, tuple[Pads | None, ...], tuple[Pads, ...]]


@dataclass
class Decompositions:
    """What composites with padding are decomposed into: one function for all that are padded alike."""

    functions: Functions
    made: dict[Key, str] = field(default_factory=dict[Key, str])

    def of(self, name: str, given: tuple[Pads | None, ...], results: tuple[Pads, ...]) -> str:
        """The function `name`, or the one that it was made of, for arguments and results with padding."""
        first = next((key[0] for key, own in self.made.items() if own == name), name)
        key = (first, given, results)
        if key not in self.made:
            self.made[key] = self._make(*key)
        return self.made[key]

    def _make(self, name: str, given: tuple[Pads | None, ...], results: tuple[Pads, ...]) -> str:
        own = f"{name}_padded{len(self.made)}"
        while own in self.functions:
            own += "_"
        whole = self.functions[name]
        with whole.operation.location, ir.InsertionPoint.after(whole.operation):
            copy = whole.operation.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(own)
        function = copy.opview
        assert isinstance(function, func.FuncOp)
        self.functions[own] = function
        # What masks would leave out does not count: the padding of the operands is such (`kinds`).
        ends = tuple((i, _cuts(pads)) for i, pads in enumerate(given) if pads is not None)
        shrink(function, (ends, tuple(map(_cuts, results))))
        retype(function)
        return own


@dataclass
class Rewriter:
    """Rewrites the operations of a block in place."""

    flow: Flow
    decompositions: Decompositions
    versions: Versions = field(init=False)

    def __post_init__(self) -> None:
        self.flow.forget()
        self.versions = Versions(self.flow, self.apply)

    def block(self, block: ir.Block, leaving: Sequence[Pads | None]) -> None:
        """Rewrites all operations; `leaving` is the padding of what the terminator returns."""
        *body, terminator = [view.operation for view in block.operations]
        for op in body:
            if op.name == LOOP:
                self._loop(op)
            elif len(op.results) and is_decided(op):
                self._op(op)
            for result in op.results:
                self._require(result)
                if result in self.flow.zeroes and result in self.flow.held:
                    self.versions.zero(result, self.flow.held[result].pads, self.flow.zeroes[result])
        for i, pads in enumerate(leaving):
            if pads is not None:
                terminator.operands[i] = self.versions.get(terminator.operands[i], pads)

    def apply(self, op: ir.Operation, work: Work, shapes: Sequence[Sequence[int]]) -> None:
        """Makes an operation compute with padding; `shapes` of its results are without."""
        self._operands(op, work)
        for result, shape, pads in zip(op.results, shapes, work.results, strict=True):
            result.set_type(ir.RankedTensorType.get(padded_shape(shape, pads), result.type.element_type))
        if op.name == "tensor.expand_shape":
            op.attributes["static_output_shape"] = i64_array(op.results[0].type.shape)
        if op.name in PLACES:
            pads = work.operands[0][1] if op.name == "tensor.extract_slice" else work.results[0]
            assert pads is not None
            _scale(op, pads)
        if op.name == COMPOSITE:
            name = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
            given = tuple(pads for _, pads in work.operands)
            made = self.decompositions.of(name, given, work.results)
            op.attributes["decomposition"] = ir.FlatSymbolRefAttr.get(made)
            if any(loop.numbered for loop in work.loops.loops):
                op.attributes[OWN_SIZES] = i64_array([loop.size for loop in work.loops.loops])

    def _op(self, op: ir.Operation) -> None:
        for inner, i in list(captured(op)) if len(op.regions) else ():
            inner.operands[i] = self._whole(inner.operands[i])
        work = self.flow.works.get(key_of(op))
        if work is None:
            for i, operand in enumerate(op.operands):
                op.operands[i] = self._whole(operand)
            return
        shapes = [tuple(result.type.shape) for result in op.results]
        if work.masked:
            _mask(op, work)
        self.apply(op, work, shapes)
        for result, shape, pads in zip(op.results, shapes, work.results, strict=True):
            if any(pads):
                self.versions.shapes[result], self.versions.own[result] = shape, pads

    def _operands(self, op: ir.Operation, work: Work) -> None:
        for i, (value, pads) in enumerate(work.operands):
            if pads is None:
                continue
            if i in work.loops.unread:
                op.operands[i] = self.versions.like(value, pads)
            elif i in work.filled and any(pads):
                dims = tuple(range(len(pads)))
                op.operands[i] = self.versions.zeroed(value, pads, dims, work.filled[i])
            elif i in work.zeroed:
                op.operands[i] = self.versions.zeroed(value, pads, work.zeroed[i])
            else:
                op.operands[i] = self.versions.get(value, pads)

    def _whole(self, value: ir.Value) -> ir.Value:
        if value not in self.versions.own or is_splat(value):
            return value
        return self.versions.get(value, (None,) * len(self.versions.own[value]))

    def _require(self, value: ir.Value) -> None:
        """Pads a value that must be padded, with what is pinned to it."""
        if value not in self.flow.required or value not in self.flow.held:
            return
        made = self.versions.get(value, self.flow.held[value].pads)
        op = value.owner.operation
        if made != value and PIN in op.attributes:
            tensors = [result for result in op.results if isinstance(result.type, ir.RankedTensorType)]
            _move_pin(op, tensors.index(value), made.owner.operation)

    def _loop(self, op: ir.Operation) -> None:
        (block,) = op.regions[0].blocks
        first, held = 3, self.flow.held
        leaving: list[Pads | None] = [None] * len(op.results)
        for i, argument in enumerate(list(block.arguments)[1:]):
            if argument in held:
                leaving[i] = held[argument].pads
                op.operands[first + i] = self.versions.get(op.operands[first + i], held[argument].pads)
                self.versions.define(argument, held[argument].pads)
                self.versions.define(op.results[i], held[argument].pads)
            elif isinstance(argument.type, ir.RankedTensorType):
                op.operands[first + i] = self._whole(op.operands[first + i])
                leaving[i] = (None,) * argument.type.rank
        self.block(block, leaving)


def _cuts(pads: Pads) -> Cuts:
    return tuple(1 if pad is None else Fraction(pad.own, pad.wide) for pad in pads)


def _scale(op: ir.Operation, pads: Pads) -> None:
    """Gives offsets and sizes along padded dimensions their padding."""
    for name in PLACES[op.name]:
        numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        scaled = [n if pad is None else pad.scaled(n) for n, pad in zip(numbers, pads, strict=True)]
        op.attributes[name] = i64_array(scaled)


def _mask(op: ir.Operation, work: Work) -> None:
    """Leaves padding out of what the body reduces."""
    for term in terms(op):
        value = term.op.operands[term.place]
        with op.location, ir.InsertionPoint(term.op):
            neutral = _neutral(value.type, term.kind)
            masked = {loop: work.pads[loop] for loop in work.masked}
            term.op.operands[term.place] = chosen_inside(value, masked, neutral)


def _neutral(element: ir.Type, kind: str) -> ir.Value:
    if kind == SUM:
        return number_for(element, 0)
    assert kind in (MAX, MIN)
    if isinstance(element, ir.FloatType):
        return number_for(element, float("-inf") if kind == MAX else float("inf"))
    bits = ir.IntegerType(element).width - 1
    return number_for(element, -(1 << bits) if kind == MAX else (1 << bits) - 1)


def _move_pin(op: ir.Operation, place: int, to: ir.Operation) -> None:
    pins = list(op.attributes[PIN])
    to.attributes[PIN] = ir.ArrayAttr.get([pins[place]])
    pins[place] = ir.UnitAttr.get()
    del op.attributes[PIN]
    if any(isinstance(pin, ir.DictAttr) for pin in pins):
        op.attributes[PIN] = ir.ArrayAttr.get(pins)


def functions_of(module: ir.Module) -> Functions:
    """The functions of a module by name."""
    return {symbol(function): function for function in functions(module)}
