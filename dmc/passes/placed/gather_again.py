"""dm-gather-again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.kernels.casts import NARROW, WIDEN, is_cast
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.requests.plan import FREED
from dmc.analysis.sharding.decisions import LOOP
from dmc.dialect.build import i64
from dmc.dialect.labels import module_path
from dmc.dialect.plan import type_bytes
from dmc.passes.base import Pass
from dmc.passes.shared.starts import IN_TIME
from dmc.program.labels import BACKWARD, UPDATE
from dmc.step_function import find_step
from dmc.walk import walk

# What is made again of a gathered value, instead of being kept beside it: views, casts and values side by side.
_SEEN = ("linalg.transpose", "tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "tensor.concat")


@dataclass(frozen=True)
class GatherAgain(Pass):
    """Gathers a value once for each pass that reads it, shortly before, so that it need not be kept in between.

    `%w = all_gather(%piece); forward(%w); backward(%w)` becomes `%w = all_gather(%piece); forward(%w); %v =
    all_gather(%piece); backward(%v)`: for weights that the plan frees (`dm.freed`: ZeRO of stage 3, Rajbhandari et al.
    2020, arXiv:1910.02054, section 5.3; Zhao et al. 2023, arXiv:2304.11277, section 3.2), and for activations that are
    gathered for products, as under sequence parallelism (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2).
    Each micro-batch gathers for itself. Views and casts of what is gathered are made again with it.

    A gather of such a weight, and one that is repeated, has `dm.in_time`. It stands before the reader of what is
    gathered before it, `ahead_bytes` ahead if there are as many, so that it has time to arrive; dm-hoist-start leaves
    it there. What is read again after less than `near` other readers, such as a head's weight, is kept; so are values
    of less than `min_bytes`. Linear in the number of operations.
    """

    name = "dm-gather-again"
    min_bytes: int = 1 << 20
    ahead_bytes: int = 1 << 25
    near: int = 3

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a module without `@step`."""
        gathered = _Gathered.of(find_step(module), self.min_bytes)
        numbers = count()
        for block in gathered.blocks:
            turns, readers = gathered.turns(block, self.near)
            places = [_place(turns, number, self.ahead_bytes) for number in range(len(turns))]
            rewriter = _Rewriter(gathered.bases)
            for turn, place in zip(turns, places, strict=True):
                if turn.is_rewritten:
                    rewriter.gather(turn, place, next(numbers))
            for reader in readers:
                rewriter.see(reader)
        gathered.erase_unread()


@dataclass(frozen=True)
class _Turn:
    """A gather for one pass, and its readers, in order. last: the last reader in the pass before."""

    gather: ir.Operation
    readers: tuple[ir.Operation, ...]
    is_weight: bool
    last: ir.Operation | None

    @property
    def is_rewritten(self) -> bool:
        return self.is_weight or self.last is not None

    @property
    def bytes(self) -> int:
        return type_bytes(self.gather.results[0].type)


@dataclass(frozen=True)
class _Gathered:
    """blocks: of the step and of its loops. gathers: those that may be repeated, and whether they are of weights.
    bases: the gathers from which a value is only viewed or cast, themselves included.
    """

    blocks: list[ir.Block]
    gathers: dict[ir.Operation, bool]
    bases: dict[ir.Value, tuple[ir.Operation, ...]]

    @staticmethod
    def of(step: func.FuncOp, min_bytes: int) -> _Gathered:
        found = _Gathered([step.entry_block], {}, {})
        freed = set(_freed(step))
        for block in found.blocks:
            for op in (view.operation for view in block.operations):
                found.blocks.extend(op.regions[0].blocks if op.name == LOOP else ())
                if op.name == dm.AllGatherOp.OPERATION_NAME and type_bytes(op.results[0].type) >= min_bytes:
                    found.take(op, _root(op.operands[0]), freed)
                elif _is_seen(op):
                    found.see(op)
        return found

    def take(self, gather: ir.Operation, root: ir.Value, freed: set[ir.Value]) -> None:
        """Of a weight that the plan frees, or of what is computed; not of another argument."""
        if root in freed or not isinstance(root.owner, ir.Block):
            self.gathers[gather] = root in freed
            self.bases[gather.results[0]] = (gather,)

    def see(self, op: ir.Operation) -> None:
        """A view or a cast, of gathered values alone."""
        inputs = [self.bases.get(value, ()) for value in _inputs(op)]
        if inputs and all(inputs):
            self.bases[op.results[0]] = tuple(dict.fromkeys(base for each in inputs for base in each))

    def turns(self, block: ir.Block, near: int) -> tuple[list[_Turn], list[ir.Operation]]:
        """The gathers that a block needs, by the pass of their readers in it, in the order of the first of these; and
        all readers, in order.
        """
        read = {gather: list[ir.Operation]() for gather in self.gathers}
        order: dict[ir.Operation, int] = {}
        for op in (view.operation for view in block.operations):
            values = op.operands if op.name == LOOP else outer_reads(op)
            bases = [base for value in values for base in self.bases.get(value, ())]
            if bases and not any(result in self.bases for result in op.results):
                order[op] = len(order)
                for base in dict.fromkeys(bases):
                    read[base].append(op)
        found: list[_Turn] = []
        for gather, is_weight in self.gathers.items():
            last = None
            for readers in _passes(read[gather], order, near) if is_weight or gather.block == block else ():
                found.append(_Turn(gather, tuple(readers), is_weight, last))
                last = readers[-1]
        return sorted(found, key=lambda turn: order[turn.readers[0]]), list(order)

    def erase_unread(self) -> None:
        """Removes gathers and views that nothing reads any more."""
        for value in reversed(self.bases):
            if next(iter(value.uses), None) is None:
                value.owner.operation.erase()


def _passes(readers: Sequence[ir.Operation], order: dict[ir.Operation, int], near: int) -> Iterator[list[ir.Operation]]:
    """The readers of one pass each: forward and backward take turns."""
    own: list[ir.Operation] = []
    for reader in readers:
        if own and _is_backward(reader) != _is_backward(own[-1]) and order[reader] - order[own[-1]] > near:
            yield own
            own = []
        own.append(reader)
    if own:
        yield own


def _place(turns: Sequence[_Turn], number: int, ahead_bytes: int) -> ir.Operation:
    """Before which operation to gather: the reader of what is gathered before, as far ahead as it may be."""
    own, first, ahead = turns[number], number, 0
    while first > 0 and ahead < ahead_bytes:
        first -= 1
        ahead += turns[first].bytes
    for turn in turns[first:number]:
        place = turn.readers[0]
        if own.last is not None and not own.last.is_before_in_block(place):
            continue
        if all(_is_behind(place, value) for value in own.gather.operands):
            return place
    return own.readers[0]


def _is_behind(op: ir.Operation, value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block) or value.owner.operation.block != op.block:
        return True
    return value.owner.operation.is_before_in_block(op)


@dataclass
class _Rewriter:
    """bases: of each value, as in `_Gathered`. turns: by gather and reader. made: gathers, and what is seen of them, by
    value and the turns that it is for.
    """

    bases: Mapping[ir.Value, tuple[ir.Operation, ...]]
    turns: dict[tuple[ir.Operation, ir.Operation], int] = field(default_factory=dict)
    made: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = field(default_factory=dict)

    def gather(self, turn: _Turn, place: ir.Operation, number: int) -> None:
        """Gathers for a turn before `place`."""
        copy = turn.gather.clone(ip=ir.InsertionPoint(place))
        copy.attributes[IN_TIME] = i64(number)
        _relabel(copy, turn.readers[0])
        self.made[turn.gather.results[0], (number,)] = copy.results[0]
        self.turns |= {(turn.gather, reader): number for reader in turn.readers}

    def see(self, reader: ir.Operation) -> None:
        """Makes `reader` read what is gathered for its turns. Readers come in order: what one sees, later ones read."""
        reads = [
            (op, number, value)
            for op in ([reader] if reader.name == LOOP else walk(reader))
            for number, value in enumerate(op.operands)
            if value in self.bases
        ]
        # All are found before one is changed: an operation's hash depends on its operands.
        seen = [self._seen(value, reader, reader) for _, _, value in reads]
        for (op, number, _), value in zip(reads, seen, strict=True):
            op.operands[number] = value

    def _seen(self, value: ir.Value, reader: ir.Operation, before: ir.Operation) -> ir.Value:
        turns = [self.turns.get((base, reader)) for base in self.bases[value]]
        key = value, tuple(turn for turn in turns if turn is not None)
        if not key[1] or key in self.made:
            return self.made.get(key, value)
        copy = value.owner.operation.clone(ip=ir.InsertionPoint(before))
        _relabel(copy, reader)
        for number, operand in enumerate(list(copy.operands)):
            if operand in self.bases:
                copy.operands[number] = self._seen(operand, reader, copy)
        self.made[key] = copy.results[0]
        return copy.results[0]


def _freed(step: func.FuncOp) -> Iterator[ir.Value]:
    attributes = step.operation.attributes.get("arg_attrs")
    for argument, given in zip(step.arguments, attributes or (), strict=False):
        if FREED in given:
            yield argument


def _root(value: ir.Value) -> ir.Value:
    """The value of which this one is viewed, cast or sliced."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if not _is_seen(op) and op.name != dm.AllSliceOp.OPERATION_NAME:
            break
        value = op.operands[0]
    return value


def _is_seen(op: ir.Operation) -> bool:
    return op.name in _SEEN or is_cast(op, NARROW) or is_cast(op, WIDEN)


def _inputs(op: ir.Operation) -> list[ir.Value]:
    """The tensors of which something is seen; a transposition and a cast also have the tensor that they write."""
    return list(op.operands) if op.name == "tensor.concat" else [op.operands[0]]


def _is_backward(op: ir.Operation) -> bool:
    return module_path(op.location).endswith((BACKWARD, UPDATE))


def _relabel(copy: ir.Operation, reader: ir.Operation) -> None:
    """What is made for the backward pass belongs to it."""
    if _is_backward(reader) and not _is_backward(copy):
        module, _, _ = module_path(copy.location).partition("#")
        copy.location = ir.Location.name(f"{module}#{copy.name}{BACKWARD}", copy.location)
