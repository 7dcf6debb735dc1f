"""Decompositions for one rank's part of a composite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.loops.loops import Loops, Split
from dmc.analysis.loops.shape_classes import Shapes
from dmc.analysis.sharding.decisions import Decision
from dmc.dialect.build import i64
from dmc.dialect.kinds import kind_of
from dmc.errors import DmcError
from dmc.passes.shared.local_ops import retype, with_indices
from dmc.passes.shared.smaller_functions import Ends, shrink
from dmc.walk import terminator_of, walk


@dataclass
class Parts:
    """Creates the decompositions of split composites, one for all with the same decomposition and sizes.

    By its rule, one rank's part of a composite is a composite of the same kind on smaller tensors. So its decomposition
    is the same, on smaller tensors, and a sum over a part is a partial sum.
    """

    module: ir.Module
    made: dict[tuple[str, Ends], str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def take(self, op: ir.Operation, decision: Decision) -> None:
        """Makes a split composite name a decomposition for parts. Its last operands are the indices of numbered loops.

        Raises DmcError where the rule of the composite's kind does not hold for its decomposition.
        """
        loops, split = decision.loops, decision.choice.split
        if not any(split.axes):
            return
        given = [(i, loops.operand(i, split)) for i, dims in enumerate(loops.operands) if dims is not None]
        ends = (
            tuple((i, placement.parts(split.mesh)) for i, placement in given),
            tuple(placement.parts(split.mesh) for placement in decision.made),
        )
        name = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
        if (name, ends) not in self.made:
            self.made[name, ends] = self._make(name, ends, decision)
        self.taken.add(name)
        op.attributes["decomposition"] = ir.FlatSymbolRefAttr.get(self.made[name, ends])

    def erase_unused(self) -> None:
        """Removes the decompositions that only split composites used."""
        named = {
            ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
            for op in walk(self.module.operation)
            if op.name == dm.CompositeOp.OPERATION_NAME
        }
        symbols = dm.Symbols.of(self.module).ops
        for name in sorted(self.taken - named):
            symbols[name].erase()

    def _make(self, name: str, ends: Ends, decision: Decision) -> str:
        symbols = dm.Symbols.of(self.module).ops
        part = f"{name}_part{sum(1 for other, _ in self.made if other == name)}"
        while part in symbols:
            part += "_"
        whole = symbols[name]
        with whole.location, ir.InsertionPoint.after(whole):
            copy = whole.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(part)
        function = copy.opview
        assert isinstance(function, func.FuncOp)
        shapes = shrink(function, ends)
        _check(decision, function, shapes.gathered)
        _take_places(function, decision.loops, decision.choice.split, shapes)
        retype(function)
        return part


def with_places(op: ir.Operation, places: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Operation:
    """The composite with further operands, the indices of a rank's iterations in each numbered loop. Replaces `op`.

    sizes: of these loops in the whole, which become the parameters `whole_0`, `whole_1` …
    """
    attributes = {name: op.attributes[name] for name in op.attributes}
    whole = {f"whole_{i}": i64(size) for i, size in enumerate(sizes)}
    given = {each.name: each.attr for each in ir.DictAttr(op.attributes["parameters"])}
    attributes["parameters"] = ir.DictAttr.get({**given, **whole})
    with op.location, ir.InsertionPoint(op):
        types = [result.type for result in op.results]
        new = ir.Operation.create(op.name, types, [*op.operands, *places], attributes)
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()
    return new


def _take_places(function: func.FuncOp, loops: Loops, split: Split, shapes: Shapes) -> None:
    """Adds the arguments of `with_places`, from which operations read the indices of numbered loops.

    Each of these is a dimension of the first result.
    """
    block = function.entry_block
    returned = terminator_of(block).operands[0]
    read: dict[ir.Operation, dict[int, ir.Value]] = {}
    for loop in loops.numbered(split):
        dim = loops.results[0].index((loop,))
        kind = ir.RankedTensorType.get([returned.type.shape[dim]], ir.IntegerType.get_signless(64))
        places = block.add_argument(kind, function.location)
        for op, own in shapes.indexed(returned, dim):
            assert own not in read.setdefault(op, {}), "two dimensions share a vector of indices"
            read[op][own] = places
    for op, indices in read.items():
        with_indices(op, indices)


def _check(decision: Decision, function: func.FuncOp, gathered: frozenset[ir.Value]) -> None:
    """Checks that the part's results have the shapes of the rule, and are partial sums where they must be."""
    op = decision.op
    (block,) = function.body.blocks
    returned = terminator_of(block).operands
    kind, hint = kind_of(op), "correct the rule of this kind"
    for value, result, made in zip(returned, op.results, decision.made, strict=True):
        if value.type != result.type:
            raise DmcError(op, f"a part of '{kind}' returns {value.type} where its rule says {result.type}", hint)
        if value in gathered and not made.partial:
            raise DmcError(op, f"a part of '{kind}' needs data of other ranks, although its rule splits it", hint)
