"""What is known of the padding of a value, and of what is computed from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from dmc._mlir import ir
from dmc.analysis.loops.loops import MAX, MIN, SUM
from dmc.analysis.loops.scalars import reduction_kind
from dmc.interpreter.scalars import FLOAT_COMPARISONS, FUNCTIONS, INTEGER_COMPARISONS
from dmc.walk import terminator_of

# No padding at all; what other elements also have, such as a row of the batch again; finite wherever all elements are;
# anything.
REAL, LIKE, FINITE, ANY = range(4)
# Of finite numbers finite, but where they overflow in all elements.
_KEEPS_FINITE = frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "arith": "addf subf mulf negf maximumf minimumf maxnumf minnumf extf truncf select cmpf cmpi sitofp uitofp "
        "fptosi addi subi muli andi ori xori extsi extui trunci index_cast maxsi minsi shli shrsi shrui",
        "math": "absf absi tanh erf sin cos atan floor ceil round roundeven trunc copysign",
    }.items()
    for name in names.split()
)
_PRODUCTS = ("arith.mulf", "arith.muli", "arith.andi")
_PLAIN = frozenset(
    f"arith.{name}"
    for name in "addf subf mulf divf negf maximumf minimumf maxnumf minnumf extf truncf fptosi sitofp".split()
)
_TYPES = {"f16": np.float16, "f32": np.float32}
# Undefined on a processor for a zero.
_DIVISIONS = ("arith.divsi", "arith.remsi", "arith.divui", "arith.remui")


@dataclass(frozen=True)
class Fact:
    """Of the padding of a value: one of REAL to ANY, and the number that it is everywhere, if that is known."""

    level: int
    number: float | None = None

    @property
    def is_zero(self) -> bool:
        """Whether the padding is zero."""
        return self.number == 0

    def or_else(self, other: Fact) -> Fact:
        """What is known of a value that is one or the other."""
        level = max(self.level, other.level)
        if level <= LIKE or self.number != other.number:
            return Fact(level)
        return Fact(level, self.number)


WHOLE, ZEROS, COPIES, UNKNOWN = Fact(REAL), Fact(FINITE, 0.0), Fact(LIKE), Fact(ANY)


def facts_of(block: ir.Block, given: Sequence[Fact]) -> list[Fact]:
    """What is known of the operands of a body's terminator for these block arguments."""
    known = dict(zip(block.arguments, given, strict=True))
    *body, terminator = [view.operation for view in block.operations]
    for op in body:
        made = fact_of(op, [_outer(value, known) for value in op.operands])
        known.update(dict.fromkeys(op.results, made))
    return [_outer(value, known) for value in terminator.operands]


def fact_of(op: ir.Operation, given: Sequence[Fact]) -> Fact:
    """What is known of the result of a scalar operation."""
    if op.name == "arith.constant":
        return Fact(REAL, number_of(op))
    level = max((each.level for each in given), default=REAL)
    if op.name == "linalg.index" or op.name == "tensor.extract":
        return Fact(max(level, LIKE))
    number = _number(op, given)
    if number is not None:
        return Fact(level if level <= LIKE else FINITE, number)
    if level <= LIKE or (level == FINITE and op.name in _KEEPS_FINITE):
        return Fact(level)
    if level == FINITE and op.name == "arith.divf" and given[1].level == REAL:
        return Fact(FINITE)
    return Fact(ANY)


def divides_by_padding(block: ir.Block) -> bool:
    """Whether a body divides integers, or reads at computed places: what garbage may not be used for."""
    return any(view.operation.name in (*_DIVISIONS, "tensor.extract") for view in block.operations)


def number_of(op: ir.Operation) -> float | None:
    """The number that a constant is everywhere."""
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr) else None


@dataclass(frozen=True)
class Term:
    """What a body adds to a result over a loop, or otherwise combines with it: an operand of an operation in it."""

    result: int
    op: ir.Operation
    place: int
    kind: str


def terms(op: ir.Operation) -> list[Term]:
    """For each result of a `linalg.generic` that combines by a known kind, the term."""
    (block,) = op.regions[0].blocks
    inputs, found = len(op.operands) - len(op.results), list[Term]()
    for i in range(len(op.results)):
        kind = reduction_kind(block, i, inputs + i)
        if kind is not None:
            combined = terminator_of(block).operands[i].owner.operation
            place = next(n for n, operand in enumerate(combined.operands) if operand != block.arguments[inputs + i])
            found.append(Term(i, combined, place, kind))
    return found


def term_fact(term: Term, block: ir.Block, given: Sequence[Fact]) -> Fact:
    """What is known of a term for these block arguments."""
    known = dict(zip(block.arguments, given, strict=True))
    for view in list(block.operations)[:-1]:
        op = view.operation
        known.update(dict.fromkeys(op.results, fact_of(op, [_outer(value, known) for value in op.operands])))
    return _outer(term.op.operands[term.place], known)


def is_neutral(kind: str, fact: Fact) -> bool:
    """Whether padding of which this is known does not change a reduction of a kind."""
    if kind in (MAX, MIN):
        return fact.level <= LIKE and fact.number is None
    return kind == SUM and fact.is_zero


def _outer(value: ir.Value, known: Mapping[ir.Value, Fact]) -> Fact:
    if value in known:
        return known[value]
    # From outside the body: a constant, or a number that is the same for all elements.
    owner = value.owner
    is_constant = not isinstance(owner, ir.Block) and owner.name == "arith.constant"
    return Fact(REAL, number_of(owner.operation)) if is_constant else WHOLE


def _number(op: ir.Operation, given: Sequence[Fact]) -> float | None:
    """The number that a result is, if the operands say it."""
    if op.name in _PRODUCTS and any(each.is_zero for each in given) and all(each.level <= FINITE for each in given):
        return 0.0
    if op.name == "arith.divf" and given[0].is_zero and given[1].level == REAL and given[1].number != 0:
        return 0.0
    if op.name == "arith.select" and given[0].number is not None:
        return given[1 if given[0].number else 2].number
    if op.name == "arith.select" and given[1].number == given[2].number:
        return given[1].number
    numbers = [each.number for each in given]
    function = _function(op)
    if function is None or not numbers or any(number is None for number in numbers):
        return None
    with np.errstate(all="ignore"):
        found = function(*[np.float64(number) for number in numbers if number is not None])
        # What a narrow type cannot hold is zero, or infinite, there.
        number = float(np.asarray(found, _TYPES.get(str(op.results[0].type), np.float64)))
    return number if isfinite(number) else None


def _function(op: ir.Operation) -> Callable[..., Any] | None:
    """An operation on numbers; of integers those whose results do not depend on how wide they are."""
    if op.name == "arith.cmpf":
        return FLOAT_COMPARISONS[ir.IntegerAttr(op.attributes["predicate"]).value]
    if op.name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        return INTEGER_COMPARISONS[predicate] if predicate < 6 else None
    if op.name.startswith("math.") or op.name in _PLAIN:
        return FUNCTIONS.get(op.name)
    return None
