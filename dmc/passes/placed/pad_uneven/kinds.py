"""What padding means to each kind of composite.

A composite whose operands are padded along loops of its rule (`dmc/analysis/loops/composites.py`) stays one of its kind
where padding does not change what it computes of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmc._mlir import ir
from dmc.passes.placed.pad_uneven.facts import ANY, COPIES, FINITE, LIKE, UNKNOWN, ZEROS, Fact

# Opened where what is padded must be whole: their operations are padded one by one.
OPENED = frozenset(
    (
        "dropout",
        *(f"{kind}{end}" for kind in ("softmax_cross_entropy", "layer_norm", "rms_norm") for end in ("", "_backward")),
    )
)
# The operand, and the results that are zero where that is zero and the others are finite.
_DRIVERS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "attention": (2, (0,)),
    "attention_backward": (0, (0, 1, 2, 3)),
    "embedding": (0, (0,)),
    "embedding_backward": (0, (0,)),
    "gelu": (0, (0,)),
    "gelu_backward": (0, (0,)),
    "layer_norm_backward": (0, (0, 1, 2)),
    "rms_norm_backward": (0, (0, 1)),
    "grouped_product": (0, (0,)),
}
_FINITE = (*_DRIVERS, "layer_norm", "rms_norm", "softmax_cross_entropy_backward")
# Operands that must be zero along a loop over which the composite sums.
_SUMMED: Mapping[str, tuple[int, ...]] = {
    "attention_backward": (0,),
    "embedding": (),
    "embedding_backward": (0,),
    "grouped_outer_product": (0, 1),
    "layer_norm_backward": (0,),
    "rms_norm_backward": (0,),
    "softmax_cross_entropy": (),
    "sum_of_squares": (0,),
}
# The target of a cross entropy: rows of padding are ignored.
_TARGETS = {"softmax_cross_entropy": 1, "softmax_cross_entropy_backward": 2}
# Kinds whose result is zero in rows that no index names.
ROWS_OF_TABLE = "embedding_backward"


def kind_of(op: ir.Operation) -> str:
    """The kind of a composite."""
    return ir.StringAttr(op.attributes["kind"]).value


def is_update(kind: str) -> bool:
    """Whether a composite makes new state of old: what is zero in all of it stays zero."""
    return kind.startswith("optimizer_update_")


def ignored(op: ir.Operation) -> tuple[int, int] | None:
    """The operand that says which rows count, and what it says for one that does not."""
    kind = kind_of(op)
    if kind not in _TARGETS:
        return None
    parameters = ir.DictAttr(op.attributes["parameters"])
    return _TARGETS[kind], ir.IntegerAttr(parameters["ignore_index"]).value


def summed(kind: str) -> tuple[int, ...] | None:
    """The operands that must be zero along a padded loop over which a composite sums; None where that does not
    suffice."""
    return _SUMMED.get(kind)


def result_facts(op: ir.Operation, given: Sequence[Fact]) -> list[Fact] | None:
    """What is known of the results along one loop, from what is of the operands; None where only the decomposition
    says it."""
    kind, count = kind_of(op), len(op.results)
    level = max(each.level for each in given)
    if kind == "softmax_cross_entropy_backward" and level <= FINITE:
        return [ZEROS]  # Its rows are ignored.
    if kind in _DRIVERS and level <= FINITE:
        driver, results = _DRIVERS[kind]
        if given[driver].is_zero:
            return [ZEROS if i in results else Fact(FINITE) for i in range(count)]
    if level <= LIKE:
        return [COPIES] * count
    if kind in _FINITE:
        return [Fact(level)] * count
    return [UNKNOWN] * count if level == ANY else None
