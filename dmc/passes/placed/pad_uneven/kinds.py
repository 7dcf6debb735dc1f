"""What padding means to each kind of composite.

A composite whose operands are padded along loops of its rule (`dmc/analysis/loops/composites.py`) stays one of its kind
where padding does not change what it computes of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir
from dmc.composites import LOSS_GRADIENT
from dmc.dialect.kinds import kind_of, traits_of
from dmc.passes.placed.pad_uneven.facts import ANY, COPIES, FINITE, LIKE, UNKNOWN, ZEROS, Fact


def ignored(op: ir.Operation) -> tuple[int, int] | None:
    """The operand that says which rows count, and what it says for one that does not."""
    classes = traits_of(op).classes
    if classes is None:
        return None
    return classes, ir.IntegerAttr(ir.DictAttr(op.attributes["parameters"])["ignore_index"]).value


def result_facts(op: ir.Operation, given: Sequence[Fact]) -> list[Fact] | None:
    """What is known of the results along one loop, from what is of the operands; None where only the decomposition
    says it."""
    traits, count = traits_of(op), len(op.results)
    level = max(each.level for each in given)
    if kind_of(op) == LOSS_GRADIENT and level <= FINITE:
        return [ZEROS]  # Its rows are ignored.
    if traits.driver is not None and level <= FINITE:
        driver, results = traits.driver
        if given[driver].is_zero:
            return [ZEROS if i in results else Fact(FINITE) for i in range(count)]
    if level <= LIKE:
        return [COPIES] * count
    if traits.is_finite or traits.driver is not None:
        return [Fact(level)] * count
    return [UNKNOWN] * count if level == ANY else None
