"""The functions that kernels run: equal computations share one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir, tensor
from dmc.analysis.commands.jobs import KIND
from dmc.analysis.kernels.contractions import is_convolution
from dmc.analysis.kernels.cost import Work, dominant, traffic
from dmc.analysis.kernels.graph import Graph, Kind
from dmc.passes.scheduled.form_kernels.generics import merge_generics
from dmc.passes.scheduled.form_kernels.outline import Outline
from dmc.passes.scheduled.form_kernels.pattern import Pattern, pattern_of
from dmc.passes.shared.loops import copy_with
from dmc.step_function import functions, symbol
from dmc.walk import walk

SIMPLE = ("arith.constant", "tensor.empty", "linalg.fill")
# Operations of a constant that several readers share: for each of them anew, they would grow with every sharing inside.
_LONG = 64


@dataclass
class SharedFunctions:
    """Private functions of a module, by what they compute."""

    module: ir.Module
    by_text: dict[str, str] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.taken = {symbol(function) for function in functions(self.module)}

    def empty(self, inputs: Sequence[ir.Type], outputs: Sequence[ir.Type], kind: str) -> func.FuncOp:
        """An unnamed function, at the end of the module; `kind` is what dominates its time (`dm.kind`)."""
        with ir.InsertionPoint(self.module.body):
            type_ = ir.FunctionType.get(list(inputs), list(outputs))
            function = func.FuncOp("kernel", type_, visibility="private")
        function.add_entry_block()
        function.operation.attributes[KIND] = ir.StringAttr.get(kind)
        return function

    def name(self, function: func.FuncOp, stem: str) -> str:
        """The name of a function created by `empty`, or of an existing equal one, which replaces it."""
        text = text_of(function)
        if text in self.by_text:
            function.operation.erase()
            return self.by_text[text]
        while (name := f"{stem}_{self.count[stem]}") in self.taken:
            self.count[stem] += 1
        self.taken.add(name)
        function.operation.attributes["sym_name"] = ir.StringAttr.get(name)
        self.by_text[text] = name
        return name


@dataclass(frozen=True)
class Made:
    """What kernels of one pattern have in common.

    names: the functions that compute it: one, or one per member of the group whose slices it takes. main: which of its
    operations dominates its time.
    """

    names: tuple[str, ...]
    group: dm.GroupAttr | None
    main: int
    flops: int
    bytes: int


@dataclass
class Bodies:
    """Kernel bodies by what they compute; each is added to the module on first use.

    made: by pattern. names: by the text of a body whose generics are not merged yet, which different patterns may have:
    merging takes longest.
    """

    functions: SharedFunctions
    graph: Graph
    works: Mapping[int, Work]
    symbols: dm.Symbols
    made: dict[Pattern, Made] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict[int, int])

    def get(self, outline: Outline) -> Made:
        """The kernel of this outline."""
        pattern = pattern_of(self.graph, outline)
        if pattern not in self.made:
            works = [self.works[i] for i in outline.members]
            names, group = self._functions(outline)
            bytes_ = traffic(self.graph, outline.body, outline.inputs, outline.outputs)
            self.made[pattern] = Made(names, group, dominant(works), sum(work.flops for work in works), bytes_)
        return self.made[pattern]

    def _functions(self, outline: Outline) -> tuple[tuple[str, ...], dm.GroupAttr | None]:
        slices = [self.graph.ops[i] for i in outline.members if self.graph.ops[i].name == dm.AllSliceOp.OPERATION_NAME]
        if not slices:
            return (self._get(outline, 0),), None
        group = slices[0].opview.group
        assert all(each.opview.group == group for each in slices)
        return tuple(self._get(outline, i) for i in range(self.symbols.group_size(group))), group

    def _get(self, outline: Outline, member: int) -> str:
        main = self.works[outline.members[dominant([self.works[i] for i in outline.members])]]
        function = self._build(outline, member, main.kind)
        text = text_of(function)
        if text in self.names:
            function.operation.erase()
        else:
            merge_generics(function)
            self.names[text] = self.functions.name(function, stem(self.graph, outline, main))
        return self.names[text]

    def _build(self, outline: Outline, member: int, kind: str) -> func.FuncOp:
        inputs, outputs = ([value.type for value in values] for values in (outline.inputs, outline.outputs))
        location = self.graph.ops[outline.members[0]].location
        with location:
            function = self.functions.empty(inputs, outputs, kind)
        block = function.entry_block
        values: dict[ir.Value, ir.Value] = dict(zip(outline.inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for number in outline.body:
                if self.graph.kinds[number] is not Kind.CONSTANT or number in outline.members:
                    self._copy(number, values, member)
            func.ReturnOp([values[value] for value in outline.outputs], loc=location)
        return function

    def _copy(self, number: int, values: dict[ir.Value, ir.Value], member: int) -> None:
        op = self.graph.ops[number]
        for value in self.graph.reads[number]:
            self._provide(value, values, member)
        if op.name == dm.AllSliceOp.OPERATION_NAME:
            values[op.results[0]] = _slice(op, values[op.operands[0]], member)
            return
        copy = copy_with(op, values)
        for name in [name for name in copy.attributes if name.startswith("dm.")]:
            del copy.attributes[name]

    def _provide(self, value: ir.Value, values: dict[ir.Value, ir.Value], member: int) -> None:
        """Creates the constant `value`, rematerialised for each reader so that it can be fused, unless it is long."""
        if self.graph.kind_of(value) is not Kind.CONSTANT:
            return
        number = self.graph.made_by[value]
        is_shared = self.graph.ops[number].name in SIMPLE or self._length(number) > _LONG
        if value not in values or not is_shared:
            self._copy(number, values, member)

    def _length(self, number: int) -> int:
        """How many operations a constant takes that is rematerialised with all that it reads."""
        if number not in self.lengths:
            read = [self.graph.made_by[v] for v in self.graph.reads[number] if self.graph.kind_of(v) is Kind.CONSTANT]
            self.lengths[number] = 1 + sum(self._length(each) for each in read)
        return self.lengths[number]


def text_of(function: func.FuncOp) -> str:
    """What a function computes, as text."""
    return function.operation.get_asm(enable_debug_info=False, use_local_scope=True, assume_verified=True)


def stem(graph: Graph, outline: Outline, main: Work) -> str:
    """The name of a kernel, by what dominates it."""
    names = {inner.name for i in outline.members for inner in walk(graph.ops[i])}
    if main.kind == "matmul":
        return "convolution" if any(is_convolution(graph.ops[i]) for i in outline.members) else "matmul"
    if main.kind == "reduction":
        if "math.exp" in names:
            return "softmax"
        return "normalise" if "math.rsqrt" in names else "reduce"
    if main.kind == "elementwise":
        return "gather" if "tensor.extract" in names and len(outline.members) == 1 else "elementwise"
    first = re.sub(r"\W+", "_", graph.ops[outline.members[0]].name.partition(".")[2])
    return {"generic": "elementwise", "extract_slice": "slice", "all_slice": "slice"}.get(first, first)


def _slice(op: ir.Operation, source: ir.Value, member: int) -> ir.Value:
    """The slice of one member of the group."""
    result, dim = op.results[0].type, ir.IntegerAttr(op.attributes["dim"]).value
    sizes: Sequence[int] = list(result.shape)
    offsets = [member * size if i == dim else 0 for i, size in enumerate(sizes)]
    return tensor.ExtractSliceOp(
        result, source, [], [], [], offsets, list(sizes), [1] * len(sizes), loc=op.location
    ).result
