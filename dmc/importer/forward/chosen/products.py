"""Products of matrices: what is summed over counts as nothing where it is not chosen."""

from __future__ import annotations

from collections.abc import Sequence

from dmc.importer.forward.chosen.calls import Call, plain, rule
from dmc.importer.forward.chosen.parts import Label, Operand, Parts, rank_of

_AT = {"linear": ("input", "weight"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "mv": ("self", "vec")}
_BY_SELF = {"dot": "tensor", "vdot": "other", "bmm": "mat2", "mm": "mat2", "matmul": "other", "inner": "other"}
_BETWEEN = {**_AT, **{name: ("self", other) for name, other in _BY_SELF.items()}}
# To these products a third operand is added.
_ADDED = {"addmm": "self", "baddbmm": "self", "linear": "bias"}
_SUMMED = "summed"


def _product(call: Call) -> Parts:
    left, right = _BETWEEN[call.name]
    x, y = rank_of(call.operands[left]), rank_of(call.operands[right])
    of_left: list[Label] = [*_batch(x), "rows", _SUMMED][-x:]
    if call.name in ("linear", "inner"):
        # Of an inner product the dimensions of neither meet.
        of_left = [*(("left", dim) for dim in range(x - 1)), _SUMMED]
        of_right: list[Label] = [*(("right", dim) for dim in range(y - 1)), _SUMMED]
        result = [*of_left[:-1], *of_right[:-1]]
    else:
        of_right = [_SUMMED] if y == 1 else [*_batch(y), _SUMMED, "columns"]
        result = [*_batch(max(x, y)), *(["rows"] if x > 1 else []), *(["columns"] if y > 1 else [])]
    labels: dict[str, Sequence[Label]] = {left: of_left, right: of_right}
    if (added := _ADDED.get(call.name)) in call.operands:
        rank = rank_of(call.operands[added])
        labels[added] = result[len(result) - rank :]
    return Parts(labels, result, {_SUMMED: 0})


def _batch(rank: int) -> list[Label]:
    """Of dimensions before the last two, counted from the last."""
    return [*range(-rank, -2)]


rule(*_BETWEEN, takes=_product)(plain)


def _outer(call: Call) -> Parts:
    labels = {name: [name] for name in call.operands}
    return Parts(labels, {*call.operands})


rule("outer", "ger", takes=_outer)(plain)


def _einsum(call: Call) -> Parts:
    terms, arrow, result = call.given["equation"].replace(" ", "").partition("->")
    operands = {name: _labels(term, call.operands[name]) for name, term in _terms(terms)}
    every = [label for each in operands.values() for label in each]
    if not arrow:
        result = "".join(each for each in every if every.count(each) == 1) + "..."
    kept = {each for each in every if each.rstrip("0123456789") in result}
    return Parts(operands, kept, dict.fromkeys({*every} - kept, 0))


def _terms(terms: str) -> list[tuple[str, str]]:
    return [(f"tensors.{place}", term) for place, term in enumerate(terms.split(","))]


def _labels(term: str, operand: Operand) -> list[str]:
    """Of its dimensions; those of an ellipsis are numbered from the last."""
    before, ellipsis, after = term.partition("...")
    count = rank_of(operand) - len(before) - len(after) if ellipsis else 0
    return [*before, *(f"...{number}" for number in reversed(range(count))), *after]


rule("einsum", takes=_einsum)(plain)
