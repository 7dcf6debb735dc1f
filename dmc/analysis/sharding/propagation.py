"""A placement for every value of a function, from those of its arguments and the loops of its operations.

Three sweeps, each linear in the number of operations: forward, each operation following its operands; backward,
collecting the splits on which all readers of a value agree; forward again with these preferences. The body of a loop is
visited twice in each forward sweep, so that loop-carried placements settle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dmc._mlir import func, ir
from dmc.analysis.kernels.contractions import is_contraction
from dmc.analysis.loops.loops import SUM, Loops
from dmc.analysis.loops.rules import captured, loops_of
from dmc.analysis.loops.splats import is_splat, is_zero
from dmc.analysis.sharding.choice import Choice, Operand, choose, movement_bytes
from dmc.analysis.sharding.decisions import LOOP, Decision, Ends, is_decided, key_of, tensor_of
from dmc.analysis.sharding.lookups import by_columns
from dmc.analysis.sharding.pins import Pin
from dmc.analysis.sharding.views import SOURCE, is_view, seen, seen_split
from dmc.analysis.sharding.wishes import wishes_of
from dmc.dialect.kinds import traits_of
from dmc.mesh import Mesh
from dmc.placement.placement import Placement, replicated
from dmc.walk import terminator_of


def propagate(
    function: func.FuncOp,
    mesh: Mesh,
    ends: Ends,
    fixed: Mapping[ir.Value, Sequence[Placement]],
    pins: Mapping[ir.Value, Pin],
) -> tuple[Decision, ...]:
    """The decisions for all operations on tensors, in order; those inside a loop precede the loop's.

    fixed: required placements of single operations' results (`key_of`). pins: required placements of single values
    along some axes. Operations that produce splats (`is_splat`) have no decision: each use takes the part that it
    needs. Raises DmcError for tensors without a static shape.
    """
    # Of operations that a sweep after the first meets again.
    known: dict[ir.Value, Loops] = {}
    first = _Sweep(mesh, ends, fixed, pins, {}, {}, known)
    first.run(function)
    decisions = tuple(first.decisions.values())
    wishes = wishes_of(decisions, _returned(function, ends), fixed, pins)
    second = _Sweep(mesh, ends, fixed, pins, wishes, _ruled(decisions), known)
    second.run(function)
    (block,) = function.body.blocks
    return by_columns(tuple(second.decisions.values()), block, ends, mesh)


def _returned(function: func.FuncOp, ends: Ends) -> list[tuple[ir.Value, Placement]]:
    (block,) = function.body.blocks
    pairs = zip(terminator_of(block).operands, ends.results, strict=True)
    return [(value, placement) for value, placement in pairs if placement is not None]


def _ruled(decisions: Sequence[Decision]) -> dict[ir.Value, list[Placement]]:
    """The placements in which operations need values because a rule of the plan splits a weight."""
    needed: dict[ir.Value, list[Placement]] = {}
    for each in decisions:
        for i, _ in each.loops.read() if each.choice.is_ruled else ():
            needed.setdefault(each.op.operands[i], []).append(each.loops.operand(i, each.choice.split))
    return needed


@dataclass
class _Sweep:
    mesh: Mesh
    ends: Ends
    fixed: Mapping[ir.Value, Sequence[Placement]]
    pins: Mapping[ir.Value, Pin]
    wishes: Mapping[ir.Value, Placement]
    # Placements in which values will be there, whatever else is decided.
    brought: Mapping[ir.Value, Sequence[Placement]]
    # The loops of operations, by `key_of`.
    known: dict[ir.Value, Loops]
    placements: dict[ir.Value, list[Placement]] = field(default_factory=dict)
    # Loop-carried values whose placement is not known yet: whether a splat, and of zeros.
    undecided: dict[ir.Value, bool] = field(default_factory=dict)
    decisions: dict[ir.Value, Decision] = field(default_factory=dict)
    # Weights, cast or turned, and the axes along which a rule of the plan splits them.
    ruled: dict[ir.Value, frozenset[str]] = field(default_factory=dict)

    def run(self, function: func.FuncOp) -> None:
        (block,) = function.body.blocks
        every = zip(block.arguments, self.ends.arguments, self.ends.used, strict=True)
        for i, (argument, stored, used) in enumerate(every):
            if stored is not None:
                self.placements[argument] = [stored] if used in (None, stored) else [used, stored]
            if stored is not None and i in self.ends.weights:
                self.ruled[argument] = frozenset(self.placements[argument][0].axes)
        self.block(block)

    def block(self, block: ir.Block) -> None:
        for op in [view.operation for view in block.operations]:
            if op.name == LOOP:
                self.loop(op)
            elif is_decided(op):
                self.visit(op)

    def loops(self, op: ir.Operation) -> Loops:
        key = key_of(op)
        if key not in self.known:
            self.known[key] = loops_of(op)
        return self.known[key]

    def visit(self, op: ir.Operation) -> None:
        loops = self.loops(op)
        every = (tensor_of(result, self.mesh) for result in op.results)
        shapes = tuple(each for each in every if each is not None)
        operands = tuple(self.operand(value, is_product(op)) for value in op.operands)
        fixed = self.fixed.get(key_of(op))
        wishes = tuple(fixed or [self.wishes.get(result) for result in op.results])
        choice = choose(loops, operands, wishes, shapes, self.mesh)
        if not fixed and (pinned := self.pinned_whole(op, loops, choice)):
            # No rank needs more than its part.
            wishes = tuple(pinned.get(i, wish) for i, wish in enumerate(wishes))
            choice = choose(loops, operands, wishes, shapes, self.mesh)
        for i, _ in loops.read():
            self.is_there(op.operands[i], loops.operand(i, choice.split))
        for inner, i in captured(op) if len(op.regions) else ():
            self.is_there(inner.operands[i], replicated(inner.operands[i].type.rank))
        tensors = [i for i, each in enumerate(op.results) if isinstance(each.type, ir.RankedTensorType)]
        made = tuple(loops.result(i, choice.split) for i in tensors)
        if fixed:
            kept = tuple(fixed)
        else:
            inherited = self.inherited(op, made) if op.name == "tensor.extract_slice" else made
            kept = tuple(self.pinned(op.results[i], each) for i, each in zip(tensors, inherited, strict=True))
        self.decisions[key_of(op)] = Decision(op, loops, choice, made, kept)
        for i, first, last in zip(tensors, made, kept, strict=True):
            self.placements[op.results[i]] = [last] if first == last else [last, first]
        for result in op.results:
            for placement in self.brought.get(result, ()):
                self.is_there(result, placement)
        self.follow_weight(op, loops)

    def operand(self, value: ir.Value, obeys: bool) -> Operand | None:
        tensor = tensor_of(value, self.mesh)
        if tensor is None:
            return None
        if value in self.undecided:
            return Operand(tensor, (), is_splat=True, is_zero=self.undecided[value])
        splat = is_splat(value)
        placements = () if splat else tuple(self.available(value))
        ruled = self.ruled.get(value, frozenset()) if obeys else frozenset[str]()
        return Operand(tensor, placements, splat, splat and is_zero(value), ruled)

    def follow_weight(self, op: ir.Operation, loops: Loops) -> None:
        """What is computed of a weight alone, such as its narrow copy, is split as it is."""
        read = [op.operands[i] for i, _ in loops.read()]
        made = self.placements.get(op.results[0])
        if len(read) == len(op.results) == 1 and read[0] in self.ruled and made is not None:
            self.ruled[op.results[0]] = self.ruled[read[0]] & frozenset(made[0].axes)

    def available(self, value: ir.Value) -> Sequence[Placement]:
        """A value's placements, and those in which it is a view of what is there."""
        own, op = self.placements[value], value.owner
        if isinstance(op, ir.Block) or not is_view(op.operation) or op.operands[SOURCE] not in self.placements:
            return own
        loops = self.loops(op.operation)
        views = (seen(loops, each, self.mesh) for each in self.available(op.operands[SOURCE]))
        return list(dict.fromkeys((*own, *(each for each in views if each is not None))))

    def is_there(self, value: ir.Value, placement: Placement) -> None:
        """A value is brought into a placement; so is what it is a view of."""
        there, op = self.placements.get(value), value.owner
        if there is None or placement in there:
            return
        there.append(placement)
        if not isinstance(op, ir.Block) and is_view(op.operation):
            loops = self.loops(op.operation)
            split = seen_split(loops, placement, self.mesh)
            if split is not None:
                self.is_there(op.operands[SOURCE], loops.operand(SOURCE, split))

    def pinned(self, value: ir.Value, made: Placement) -> Placement:
        return self.pins[value].of(made) if value in self.pins else made

    def pinned_whole(self, op: ir.Operation, loops: Loops, choice: Choice) -> dict[int, Placement]:
        """The placements at which results are pinned that every rank would make whole, by number."""
        made = ((i, loops.result(i, choice.split)) for i, result in enumerate(op.results) if result in self.pins)
        return {i: self.pinned(op.results[i], each) for i, each in made if not each.axes and not each.partial}

    def inherited(self, op: ir.Operation, made: tuple[Placement, ...]) -> tuple[Placement, ...]:
        """A slice of a split dimension is split again where possible: ranks should not all do the same work."""
        there, (placement,) = self.placements.get(op.operands[0]), made
        if there is None or len(there[0].dims) != len(placement.dims):
            return made  # A splat, or of another rank (number of dimensions).
        shape = op.results[0].type.shape
        for dim, axes in enumerate(there[0].dims):
            for axis in axes:
                left = placement.local_shape(self.mesh, shape)[dim]
                if axis not in placement.axes and left % self.mesh.axis_size(axis) == 0:
                    placement = placement.split(dim, [axis])
        return (placement,)

    def loop(self, op: ir.Operation) -> None:
        (block,) = op.regions[0].blocks
        inits, arguments = list(op.operands)[3:], list(block.arguments)[1:]
        results = list(op.results)
        places = [i for i, init in enumerate(inits) if isinstance(init.type, ir.RankedTensorType)]
        for i in places:
            if is_splat(inits[i]) or inits[i] in self.undecided:
                self.undecided[arguments[i]] = self.undecided.get(inits[i], is_zero(inits[i]))
            else:
                self.placements[arguments[i]] = [self.placements[inits[i]][0]]
        self.block(block)
        yielded = list(terminator_of(block).operands)
        carried = tuple(self.carried(inits[i], arguments[i], yielded[i]) for i in places)
        for i, placement in zip(places, carried, strict=True):
            self.undecided.pop(arguments[i], None)
            self.placements[arguments[i]] = [placement]
        self.block(block)
        if not results:
            return
        # After the body's decisions, so that the backward sweep visits the loop first.
        self.decisions.pop(key_of(op), None)
        loops = self.loops(op)
        self.decisions[key_of(op)] = Decision(
            op, loops, Choice(loops.unsplit(self.mesh), 0, ("as its body returns it",), ()), carried, carried
        )
        for i, placement in zip(places, carried, strict=True):
            self.placements[results[i]] = [placement]

    def carried(self, init: ir.Value, argument: ir.Value, new: ir.Value) -> Placement:
        """The body's placement, if resharding the initial value to it is free; else the initial value's.

        Partial only where both are, by a sum: a complete value cannot become partial by another reduction.
        """
        tensor = tensor_of(new, self.mesh)
        assert tensor is not None
        if new in self.undecided or is_splat(new):
            return replicated(len(tensor.shape)) if argument in self.undecided else self.placements[init][0]
        made = self.placements[new][0]
        if argument in self.undecided:
            return made if self.undecided[argument] and _is_sum(made) else made.complete()
        before = self.placements[init][0]
        if not made.partial and movement_bytes(before, made, tensor) == 0:
            return made
        return before if made.partial == before.partial and _is_sum(before) else before.complete()


def is_product(op: ir.Operation) -> bool:
    """Whether a weight is multiplied here, or looked up in: what tensor parallelism splits. Updates are elsewhere."""
    return traits_of(op).is_lookup or is_contraction(op)


def _is_sum(placement: Placement) -> bool:
    return all(kind == SUM for _, kind in placement.partial)
