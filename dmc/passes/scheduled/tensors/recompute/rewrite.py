"""Making values again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterable

from dmc._mlir import ir
from dmc.analysis.kernels.cheap import cheap_reads
from dmc.analysis.storage.pieces import is_view
from dmc.dialect.iree import fusion_barrier
from dmc.dialect.labels import module_path
from dmc.passes.scheduled.tensors.recompute.cut import Cut
from dmc.passes.scheduled.tensors.recompute.places import places_of
from dmc.passes.shared.step import Step, base_of, is_loop, views_of
from dmc.program.labels import RECOMPUTED
from dmc.walk import walk


def rewrite(step: Step, cuts: Iterable[Cut]) -> dict[ir.Value, ir.Value]:
    """Lets the backward pass read copies of what is to be made again, which are returned by what they are copies of.

    What these are made from is kept behind a barrier, through which the rest of the backward pass reads it too: so the
    copies share kernels with the backward pass, never with the forward pass, which would make them too early.
    """
    copies: dict[ir.Value, ir.Value] = {}
    for cut in cuts:
        rewriter = _Rewriter(step, cut)
        rewriter.rewrite()
        copies.update(each for each in rewriter.new.items() if each[0] not in rewriter.kept)
    return copies


def keep_apart(step: Step, cuts: Iterable[Cut]) -> None:
    """Lets loops of the backward pass read what it needs in memory anyway, and no cut concerns, through a barrier.

    A comparison of the backward pass would otherwise share the kernel that makes the value, in the forward pass, and
    what it gives would be held beside the value.
    """
    cut = {value for each in cuts for value in (*each.again, *each.kept)}
    for value, readers in step.readers.items():
        if value in cut or isinstance(value.owner, ir.Block) or not isinstance(value.type, ir.RankedTensorType):
            continue
        loops = [reader for reader in readers if is_loop(reader)]
        others = [reader for reader in readers if not is_loop(reader) and not is_view(reader)]
        if loops and others:
            replace(loops, value, fusion_barrier(value))


def replace(readers: Iterable[ir.Operation], value: ir.Value, new: ir.Value) -> None:
    """Lets operations read another value, through the same views."""
    for reader in readers:
        for op in walk(reader):
            _replace(op, value, new, reader)


def _replace(op: ir.Operation, value: ir.Value, new: ir.Value, before: ir.Operation) -> None:
    for number, operand in enumerate(list(op.operands)):
        if base_of(operand) == value:
            op.operands[number] = _seen_as(new, operand, before)


class _Rewriter:
    """new: what the backward pass reads instead of a value. places: where each is made, by what makes it first."""

    def __init__(self, step: Step, cut: Cut) -> None:
        self.step, self.cut = step, cut
        self.kept = set(cut.kept)
        self.new: dict[ir.Value, ir.Value] = {}
        self.places = places_of(step, cut)

    def rewrite(self) -> None:
        for value in (*self.cut.again, *self.cut.kept):
            replace(self.step.readers.get(value, ()), value, self._copy(value))

    def _copy(self, value: ir.Value) -> ir.Value:
        """The value of the backward pass that equals one of the forward pass."""
        if self.step.is_shared(value):
            return value
        if value not in self.new:
            self.new[value] = fusion_barrier(value) if value in self.kept else self._made(value)
        return self.new[value]

    def _made(self, value: ir.Value) -> ir.Value:
        op = value.owner.operation
        read = {each: self._copy(base_of(each)) for each in cheap_reads(op)}
        before = self.places[op]
        copy = op.clone(ip=ir.InsertionPoint(before))
        copy.location = _recomputed(op)
        for number, operand in enumerate(list(op.operands)):
            if operand in read:
                copy.operands[number] = _seen_as(read[operand], operand, copy)
        return copy.results[0]


def _seen_as(base: ir.Value, value: ir.Value, before: ir.Operation) -> ir.Value:
    """The view of a new base that corresponds to `value`, a view of the old one."""
    for view in reversed(list(views_of(value))):
        copy = view.clone(ip=ir.InsertionPoint(before))
        copy.operands[0] = base
        base = copy.results[0]
    return base


def _recomputed(op: ir.Operation) -> ir.Location:
    """Of no action of a pipeline, so that it may share a kernel with a reader in any."""
    module, _, _ = module_path(op.location).partition("#")
    return ir.Location.name(f"{module}#{op.name}{RECOMPUTED}", op.location)
