"""Which values of a function are padded, and what is known of their padding: from its arguments, forward.

An operation that reads a padded operand is padded along the same loop, if it can be; what else it reads is, for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from dmc._mlir import ir
from dmc.analysis.kernels.contractions import is_contraction
from dmc.analysis.loops.loops import PARALLEL, Loops
from dmc.analysis.loops.rules import COMPOSITE, loops_of
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding.decisions import LOOP, is_decided, key_of
from dmc.dialect.kinds import traits_of
from dmc.passes.placed.pad_uneven.facts import (
    ANY,
    LIKE,
    REAL,
    WHOLE,
    ZEROS,
    Fact,
    divides_by_padding,
    is_neutral,
    term_fact,
    terms,
)
from dmc.passes.placed.pad_uneven.kinds import ignored
from dmc.passes.placed.pad_uneven.known import Held, Known, elements_of, held_so, indexed, splat_number
from dmc.passes.placed.pad_uneven.work import Work, asked, carrying, work_of
from dmc.placement.pads import Pads
from dmc.walk import terminator_of


@dataclass(frozen=True)
class Required:
    """Padding with which a value splits into this many parts, dimension by dimension."""

    pads: Pads
    parts: tuple[int, ...]

    def beside(self, held: Pads) -> Pads:
        """The padding of a value that is padded so already."""
        every = zip(held, self.pads, self.parts, strict=True)
        return tuple(own if own is not None and own.size % parts == 0 else pad for own, pad, parts in every)


@dataclass
class Flow(Known):
    """The values of one block and of the loops in it.

    required: padding that values must have, such as gradients that ZeRO splits. zeroes: dimensions of values whose
    padding is set to zero, once for all readers. opened: composites that cannot be padded as they are. wanted: further
    `zeroes`.
    """

    required: Mapping[ir.Value, Required] = field(default_factory=dict[ir.Value, Required])
    zeroes: Mapping[ir.Value, frozenset[int]] = field(default_factory=dict[ir.Value, frozenset[int]])
    opened: dict[ir.Value, ir.Operation] = field(default_factory=dict[ir.Value, ir.Operation])
    wanted: dict[ir.Value, frozenset[int]] = field(default_factory=dict[ir.Value, frozenset[int]])

    def after(self, block: ir.Block) -> Self:
        """Visits all operations, in order."""
        for op in [view.operation for view in block.operations]:
            if op.name == LOOP:
                self._loop(op)
            elif is_decided(op):
                self._visit(op)
            for result in op.results:
                self._require(result)
                self._zero(result)
        return self

    def _require(self, value: ir.Value) -> None:
        if value not in self.required:
            return
        required = self.required[value]
        held = self.held.get(value) or held_so((None,) * len(required.pads), ZEROS)
        pads = required.beside(held.pads)
        if any(pads):
            self.held[value] = held.with_pads(pads)

    def _zero(self, value: ir.Value) -> None:
        if value in self.zeroes and value in self.held:
            held, dims = self.held[value], self.zeroes[value]
            self.held[value] = Held(held.pads, tuple(ZEROS if i in dims else fact for i, fact in enumerate(held.facts)))

    def _visit(self, op: ir.Operation) -> None:
        given = [self.held[value].pads if value in self.held else None for value in op.operands]
        if not any(pads is not None for pads in given):
            return
        loops = loops_of(op)
        pads = asked(loops, given)
        for loop in indexed(op):
            # Blocks with padding behind each have other indices.
            if loop in pads and pads[loop].blocks > 1:
                del pads[loop]
        if op.name == COMPOSITE:
            pads = {loop: pad for loop, pad in pads.items() if self._allows(op, loops, loop)}
        work = self._checked(op, work_of(list(op.operands), loops, pads))
        whole = [i for i, _ in loops.read() if given[i] is not None and given[i] != work.operands[i][1]]
        self.is_cut |= bool(whole)
        if whole and traits_of(op).is_opened:
            self.opened[key_of(op)] = op
        if not work.pads:
            return
        self.works[key_of(op)] = self._safe(op, work)
        facts = {loop: self.of_loop(op, self.works[key_of(op)], loop) for loop in work.pads}
        for i, result in enumerate(op.results):
            if any(work.results[i]):
                by_dim = (next((loop for loop in own if loop in work.pads), None) for own in loops.results[i])
                known = tuple(WHOLE if loop is None else facts[loop][i] for loop in by_dim)
                self.held[result] = Held(work.results[i], known)

    def _allows(self, op: ir.Operation, loops: Loops, loop: int) -> bool:
        return loops.loops[loop].kind == PARALLEL or traits_of(op).summed is not None

    def _checked(self, op: ir.Operation, work: Work) -> Work:
        """Without padding where garbage in it would be an index or a divisor."""
        if op.name != "linalg.generic" or not divides_by_padding(op.regions[0].blocks[0]):
            return work
        given = (fact for loop in work.pads for fact in self.given(op, work, loop))
        return work if all(fact.level <= LIKE for fact in given) else work_of(list(op.operands), work.loops, {})

    def _safe(self, op: ir.Operation, work: Work) -> Work:
        """The work with masks wherever padding would change what is not padding."""
        if op.name == COMPOSITE and (fill := ignored(op)) is not None and any(work.operands[fill[0]][1] or ()):
            work = replace(work, filled=dict([fill]))
        if traits_of(op).is_update:
            return replace(work, zeroed=self._to_zero(op, work, list(work.pads), range(len(op.operands))))
        reduced = [loop for loop in work.pads if work.loops.loops[loop].kind != PARALLEL]
        if not reduced:
            return work
        if op.name == COMPOSITE:
            numbers = traits_of(op).summed
            assert numbers is not None
            return replace(work, zeroed=self._to_zero(op, work, reduced, numbers))
        if op.name != "linalg.generic" or is_contraction(op):
            factors = [i for i, _ in work.loops.read() if i not in work.loops.carried]
            return replace(work, zeroed=self._of_product(op, work, reduced, factors))
        return replace(work, masked=tuple(loop for loop in reduced if not self._is_neutral(op, work, loop, reduced)))

    def _to_zero(
        self, op: ir.Operation, work: Work, reduced: Sequence[int], numbers: Sequence[int]
    ) -> dict[int, tuple[int, ...]]:
        """The dimensions of operands that are summed over, where they may not be zero, or the others not finite."""
        found: dict[int, tuple[int, ...]] = {}
        for i, dims in work.loops.read():
            facts = {dim: self.operand(op, work, i, loop) for loop in reduced for dim in carrying(dims, loop)}
            dims_to_zero = [
                dim for dim, fact in facts.items() if not fact.is_zero and (i in numbers or fact.level == ANY)
            ]
            if not dims_to_zero:
                continue
            found[i] = tuple(dims_to_zero)
            value = op.operands[i]
            if value in self.held and not isinstance(value.owner, ir.Block) and value.owner.name != LOOP:
                self.wanted[value] = self.wanted.get(value, frozenset()) | frozenset(dims_to_zero)
        return found

    def _of_product(
        self, op: ir.Operation, work: Work, reduced: Sequence[int], factors: Sequence[int]
    ) -> dict[int, tuple[int, ...]]:
        """One factor must be zero, the others finite: zero is what is so already, else the smallest."""
        zero = [i for i in factors if all(self.operand(op, work, i, loop).is_zero for loop in reduced)]
        chosen = zero[:1] or [min(factors, key=lambda i: elements_of(op.operands[i]))]
        return self._to_zero(op, work, reduced, chosen)

    def _is_neutral(self, op: ir.Operation, work: Work, loop: int, reduced: Sequence[int]) -> bool:
        (block,) = op.regions[0].blocks
        given = self.given(op, work, loop)
        return all(is_neutral(term.kind, term_fact(term, block, given)) for term in terms(op))

    def _loop(self, op: ir.Operation) -> None:
        """Carried values are padded as the body returns them."""
        (block,) = op.regions[0].blocks
        inits, arguments = list(op.operands)[3:], list(block.arguments)[1:]
        tensors = [i for i, init in enumerate(inits) if isinstance(init.type, ir.RankedTensorType)]
        for i in tensors:
            if is_splat(inits[i]) or inits[i] in self.undecided:
                self.undecided[arguments[i]] = self.undecided.get(inits[i], Fact(REAL, splat_number(inits[i])))
            elif inits[i] in self.held:
                self.held[arguments[i]] = self.held[inits[i]]
        self.after(block)
        while True:
            news = [self._carry(inits[i], arguments[i], terminator_of(block).operands[i]) for i in tensors]
            self.forget()
            if not any(news):
                break
            self._again(block)
        for i in tensors:
            if arguments[i] in self.held:
                self.held[op.results[i]] = self.held[arguments[i]]

    def _carry(self, init: ir.Value, argument: ir.Value, new: ir.Value) -> bool:
        """Joins what a body takes and returns, of which less is known in each round; whether that is news."""
        was_undecided = self.undecided.pop(argument, None) is not None
        before, made = self.held.get(argument), self.held.get(new)
        if made is None:
            self.held.pop(argument, None)
            return was_undecided or before is not None
        first = [WHOLE if pad is None else self.known(init, dim, pad) for dim, pad in enumerate(made.pads)]
        facts = [
            ZEROS if one.is_zero and other.is_zero else Fact(max(one.level, other.level))
            for one, other in zip(first, made.facts, strict=True)
        ]
        joined = Held(made.pads, tuple(facts))
        self.held[argument] = joined
        return before != joined

    def _again(self, block: ir.Block) -> None:
        for op in block.operations:
            for result in op.operation.results:
                self.held.pop(result, None)
                self.works.pop(result, None)
                self.opened.pop(result, None)
                self.wanted.pop(result, None)
        self.forget()
        self.after(block)
