"""What is known of the padding of a function's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from dmc._mlir import func, ir
from dmc.analysis.kernels.contractions import is_contraction
from dmc.analysis.loops.loops import PARALLEL, Loops
from dmc.analysis.loops.rules import COMPOSITE, captured, loops_of
from dmc.analysis.loops.shape_classes import loops_with_index
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding.decisions import LOOP, key_of
from dmc.dialect.kinds import traits_of
from dmc.passes.placed.pad_uneven.facts import (
    ANY,
    COPIES,
    FINITE,
    REAL,
    UNKNOWN,
    WHOLE,
    ZEROS,
    Fact,
    fact_of,
    facts_of,
    number_of,
)
from dmc.passes.placed.pad_uneven.kinds import result_facts
from dmc.passes.placed.pad_uneven.work import Work, apart, can_be_padded, carrying, inner_of, pads_of
from dmc.passes.shared.local_ops import PLACES
from dmc.placement.pads import Pad, Pads
from dmc.walk import terminator_of

# A dimension of a value, and its padding.
Place = tuple[ir.Value, int, Pad]


@dataclass(frozen=True)
class Held:
    """A padded value: its padding, and what is known of that, dimension by dimension."""

    pads: Pads
    facts: tuple[Fact, ...]

    def with_pads(self, pads: Pads) -> Held:
        """The same padded otherwise: dimensions whose padding is new have zeros there."""
        old = zip(self.pads, pads, self.facts, strict=True)
        return Held(pads, tuple(fact if before == after else ZEROS for before, after, fact in old))


def held_so(pads: Pads, fact: Fact) -> Held:
    """A value of whose padding this is known in every dimension."""
    return Held(pads, (fact,) * len(pads))


@dataclass
class Known:
    """The padded values of a function. functions: those of its module, by name.

    held: the values that are padded. works: the padded operations. is_cut: whether an operation needs a padded value
    without its padding.
    """

    functions: Mapping[str, func.FuncOp]
    held: dict[ir.Value, Held] = field(default_factory=dict[ir.Value, Held])
    works: dict[ir.Value, Work] = field(default_factory=dict[ir.Value, Work])
    is_cut: bool = False
    # Loop-carried values of which the first is a splat: padded as their readers ask.
    undecided: dict[ir.Value, Fact] = field(default_factory=dict[ir.Value, Fact])
    # What `free` has found.
    _frees: dict[Place, Fact | None] = field(default_factory=dict[Place, Fact | None])

    def after(self, block: ir.Block) -> Self:
        """The same, of all values of a block."""
        raise NotImplementedError

    def known(self, value: ir.Value, dim: int, pad: Pad) -> Fact:
        """What is known of a dimension's padding where a value is read with it."""
        if is_splat(value):
            return Fact(REAL, splat_number(value))
        held = self.held.get(value)
        if held is not None and held.pads[dim] == pad:
            return held.facts[dim]
        return self.free(value, dim, pad) or ZEROS

    def free(self, value: ir.Value, dim: int, pad: Pad) -> Fact | None:
        """What is known where a value is computed with padding although nothing in it is padded; None if it cannot.

        It is computed from its index, from what has not this dimension, or by composites whose padding is zero.
        """
        # A stack, not calls: chains of operations are long.
        pending: list[Place] = [(value, dim, pad)]
        while pending:
            found = self._free(*pending[-1])
            if isinstance(found, tuple):
                pending.append(found)
            else:
                self._frees[pending.pop()] = found
        return self._frees[value, dim, pad]

    def forget(self) -> None:
        """Asks again what `free` has found, since operations have changed."""
        self._frees.clear()

    def _free(self, value: ir.Value, dim: int, pad: Pad) -> Place | Fact | None:
        """What `free` finds, or a place of which that must be found first."""
        if (value, dim, pad) in self._frees:
            return self._frees[value, dim, pad]
        if is_splat(value):
            return Fact(REAL, splat_number(value))
        if value in self.undecided or isinstance(value.owner, ir.Block):
            return self.undecided.get(value)
        op = value.owner.operation
        if op.name == LOOP or (op.name == COMPOSITE and not traits_of(op).has_unread_rows):
            return None
        before = self.works.get(key_of(op))
        loops, place = loops_of(op) if before is None else before.loops, list(op.results).index(value)
        inner = inner_of(loops.results[place][dim], pad, loops)
        if inner is None or not self._is_free(op, loops, *inner):
            return None
        given: list[Fact] = []
        for i in range(len(op.operands)):
            found = self._free_operand(op, loops, i, *inner)
            if not isinstance(found, Fact):
                return found
            given.append(found)
        if op.name == COMPOSITE:
            return ZEROS
        return self._results(op, loops, given, *inner)[place]

    def _is_free(self, op: ir.Operation, loops: Loops, loop: int, pad: Pad) -> bool:
        if loops.loops[loop].kind != PARALLEL or not can_be_padded(loops, loop) or any(captured_in(op)):
            return False
        own = self.works.get(key_of(op))
        if own is not None and op.name in PLACES:
            return False
        given = {**(own.pads if own is not None else {}), loop: pad}
        return apart(loops, given) == given and not (pad.blocks > 1 and loop in indexed(op))

    def _free_operand(self, op: ir.Operation, loops: Loops, i: int, loop: int, pad: Pad) -> Place | Fact | None:
        dims = loops.operands[i]
        if dims is None or i in loops.unread or loop not in {each for own in dims for each in own}:
            return Fact(REAL, splat_number(op.operands[i]))
        dim = next(carrying(dims, loop))
        whole = pads_of(dims, loops, {loop: pad})[dim]
        before = self.works.get(key_of(op))
        value = op.operands[i] if before is None else before.operands[i][0]
        if whole is None:
            return None
        return self._frees.get((value, dim, whole), (value, dim, whole))

    def given(self, op: ir.Operation, work: Work, loop: int) -> list[Fact]:
        """What is known of each operand along a loop."""
        return [self.operand(op, work, i, loop) for i in range(len(op.operands))]

    def operand(self, op: ir.Operation, work: Work, i: int, loop: int) -> Fact:
        value, pads = work.operands[i]
        dims = work.loops.operands[i]
        if pads is None or dims is None or (i in work.loops.unread and op.name != COMPOSITE):
            return WHOLE if pads is None else Fact(REAL, splat_number(value))
        zeroed = work.zeroed.get(i, ())
        facts = [
            WHOLE if pad is None else ZEROS if dim in zeroed else self.known(value, dim, pad)
            for dim, pad in enumerate(pads)
        ]
        own = next((facts[dim] for dim in carrying(dims, loop)), Fact(REAL, splat_number(value)))
        if i in work.filled and loop in dims[0]:
            return COPIES
        # Where padding of two dimensions meets, either may be what is there.
        is_any = own.number is None and any(fact.level == ANY for fact in facts)
        return UNKNOWN if is_any else own

    def of_loop(self, op: ir.Operation, work: Work, loop: int) -> list[Fact]:
        """What is known of the results' padding along a loop."""
        if work.loops.loops[loop].kind != PARALLEL:
            return [WHOLE] * len(op.results)
        given = self.given(op, work, loop)
        return self._results(op, work.loops, given, loop, work.pads[loop])

    def _results(self, op: ir.Operation, loops: Loops, given: Sequence[Fact], loop: int, pad: Pad) -> list[Fact]:
        if op.name == COMPOSITE:
            return result_facts(op, given) or self._of_decomposition(op, loops, given, loop, pad)
        if op.name == "linalg.generic":
            found = facts_of(op.regions[0].blocks[0], given)
            is_sum = any(each.kind != PARALLEL for each in loops.loops)
            return [Fact(fact.level) if is_sum and not fact.is_zero else fact for fact in found]
        read = [given[i] for i, _ in loops.read()]
        if is_contraction(op):
            return [_product([given[i] for i, _ in loops.read() if i not in loops.carried])]
        if op.name.startswith(("arith.", "math.")):
            return [fact_of(op, given)]
        known = read[0] if read else COPIES
        for fact in read[1:]:
            known = known.or_else(fact)
        if op.name == "tensor.pad":
            known = known if known.is_zero else Fact(max(known.level, FINITE))
        return [known] * len(op.results)

    def _of_decomposition(
        self, op: ir.Operation, loops: Loops, given: Sequence[Fact], loop: int, pad: Pad
    ) -> list[Fact]:
        """What is known of the results of a composite that computes each element from those in its place."""
        function = self.functions[ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value]
        (block,) = function.body.blocks
        inner = type(self)(self.functions)
        for argument, dims, fact in zip(block.arguments, loops.operands, given, strict=True):
            if dims is not None and list(carrying(dims, loop)):
                pads = pads_of(dims, loops, {loop: pad})
                inner.held[argument] = Held(pads, tuple(fact if each else WHOLE for each in pads))
        inner.after(block)
        found: list[Fact] = []
        for value, dims in zip(terminator_of(block).operands, loops.results, strict=True):
            pads = pads_of(dims, loops, {loop: pad})
            own = next(((dim, each) for dim, each in enumerate(pads) if each is not None), None)
            is_known = value in inner.held and inner.held[value].pads == pads and not inner.is_cut
            found.append(WHOLE if own is None else inner.known(value, *own) if is_known else UNKNOWN)
        return found


def captured_in(op: ir.Operation) -> list[tuple[ir.Operation, int]]:
    """The tensors from outside that the body of an operation reads (`captured`)."""
    return list(captured(op)) if len(op.regions) else []


def indexed(op: ir.Operation) -> list[int]:
    """The loops whose index the body of an operation reads."""
    return loops_with_index(op) if op.name == "linalg.generic" else []


def elements_of(value: ir.Value) -> int:
    """The number of elements of a tensor."""
    count = 1
    for size in value.type.shape:
        count *= size
    return count


def splat_number(value: ir.Value) -> float | None:
    """The number that a splat, or a constant, is everywhere, where it is known."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "linalg.fill":
        return splat_number(op.operands[0])
    return number_of(op) if op.name == "arith.constant" else None


def _product(factors: Sequence[Fact]) -> Fact:
    level = max(fact.level for fact in factors)
    if level <= FINITE and any(fact.is_zero for fact in factors):
        return ZEROS
    return Fact(level)
