"""Products of matrices: what is summed over counts as nothing where it is not chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dmc.importer.forward.chosen.calls import AGREE, DIFFERENT, Call, check_aligned, rule
from dmc.importer.forward.chosen.values import Chosen, Extent, refused

_AT = {"linear": ("input", "weight"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "mv": ("self", "vec")}
_BETWEEN = {"dot": ("self", "tensor"), "vdot": ("self", "other"), "bmm": ("self", "mat2"), "mm": ("self", "mat2")}
# To these products `self` is added.
_ADDED = ("addmm", "baddbmm")
_OPERANDS = {**_AT, **_BETWEEN, "matmul": ("self", "other"), "inner": ("self", "other")}


@rule(*_OPERANDS)
def _product(call: Call) -> Any:
    left, right = _OPERANDS[call.name]
    places = {left: -1, right: _summed(call, call.given[right])}
    changes = {name: _zeroed(call.given[name], place) for name, place in places.items()}
    _check_meeting(call, call.given[left], call.given[right])
    result = call.made(call.applied(changes))
    if call.name in _ADDED:
        check_aligned([each for each in (call.given["self"], result) if isinstance(each, Chosen)])
    return result


@rule("outer", "ger")
def _outer(call: Call) -> Any:
    return call.made(call.applied())


@rule("einsum")
def _einsum(call: Call) -> Any:
    operands = call.given["tensors"]
    terms = call.given["equation"].replace(" ", "").partition("->")[0].split(",")
    found: dict[str, Extent] = {}
    for term, operand in zip(terms, operands, strict=True):
        for label, extent in (
            zip(_labels(term, operand), operand.extents, strict=True) if isinstance(operand, Chosen) else ()
        ):
            if extent is not None and found.setdefault(label, extent) != extent:
                raise refused(DIFFERENT, AGREE)
    zeroed = [each.with_value(0) if isinstance(each, Chosen) else each for each in operands]
    return call.unfilled(call.applied({"tensors": zeroed}))


def _labels(term: str, operand: Chosen) -> list[str]:
    """Of its dimensions; those of an ellipsis are numbered from the last."""
    before, ellipsis, after = term.partition("...")
    count = operand.tensor.dim() - len(before) - len(after) if ellipsis else 0
    return [*before, *(f"...{number}" for number in reversed(range(count))), *after]


def _check_meeting(call: Call, left: Any, right: Any) -> None:
    """Raises ImportFailure where different masks choose what is multiplied, or along which several products lie."""
    if not isinstance(left, Chosen) or not isinstance(right, Chosen):
        return
    one, other = left.extents[-1], right.extents[_summed(call, right)]
    if one is not None and other is not None and one != other:
        raise refused(DIFFERENT, AGREE)
    if call.name in ("bmm", "baddbmm", "matmul"):
        check_aligned(
            [replace(each, extents=(*each.extents[:-2], None, None)[-each.tensor.dim() :]) for each in (left, right)]
        )


def _summed(call: Call, operand: Any) -> int:
    """The dimension of the right operand that is summed over."""
    if call.name in ("linear", "inner"):
        return -1
    rank = operand.tensor.dim() if isinstance(operand, Chosen) else operand.dim()
    return -1 if rank == 1 else -2


def _zeroed(x: Any, place: int) -> Any:
    if not isinstance(x, Chosen) or x.extents[place] is None:
        return x
    return x.with_value(0, [place + x.tensor.dim()])
