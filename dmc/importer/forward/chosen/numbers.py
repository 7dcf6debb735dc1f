"""Numbers that masks decide, and tensors of such sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, plain, rule
from dmc.importer.forward.chosen.parts import Parts
from dmc.importer.forward.chosen.values import Chosen, Count, Extent, Extents, refused, size_of, sizes_of

aten = torch.ops.aten
_COMPARISONS = (operator.ge, operator.le, operator.gt, operator.lt, operator.eq, operator.ne)


def _divided(a: Any, b: Any) -> Any:
    return torch.div(torch.as_tensor(a), b)


def _floored(a: Any, b: Any) -> Any:
    return torch.div(torch.as_tensor(a), b, rounding_mode="floor")


def _power(a: Any, b: Any) -> Any:
    return torch.pow(torch.as_tensor(a).to(torch.float32 if isinstance(b, float) else torch.int64), b)


def _remainder(a: Any, b: Any) -> Any:
    return torch.remainder(torch.as_tensor(a), b)


def _largest(a: Any, b: Any) -> Any:
    return torch.maximum(torch.as_tensor(a), torch.as_tensor(b))


def _smallest(a: Any, b: Any) -> Any:
    return torch.minimum(torch.as_tensor(a), torch.as_tensor(b))


def _as_float(a: Tensor) -> Tensor:
    return a.to(torch.float32)


_ARITHMETIC: dict[Any, Callable[..., Any]] = {
    **{each: each for each in (operator.add, operator.sub, operator.mul, operator.neg, *_COMPARISONS)},
    operator.and_: torch.logical_and,
    operator.or_: torch.logical_or,
    operator.pow: _power,
    operator.mod: _remainder,
    operator.truediv: _divided,
    operator.floordiv: _floored,
    torch.sym_max: _largest,
    torch.sym_min: _smallest,
    torch.sym_float: _as_float,
    torch.sym_not: torch.logical_not,
}


def is_arithmetic(target: Any) -> bool:
    """Whether a function computes numbers of numbers."""
    return target in _ARITHMETIC


def size(x: Chosen, dim: int, recorded: Any) -> Any:
    """The size of a dimension."""
    extent = x.extents[dim]
    return x.tensor.shape[dim] if extent is None else Count(extent.count, extent, size_of(recorded))


def computed(target: Any, args: Sequence[Any], recorded: Any) -> Any:
    """What Python computes of numbers that masks decide."""
    if target in _COMPARISONS and _is_certain(target, *args):
        return True
    result = _ARITHMETIC[target](*(each.tensor if isinstance(each, Count) else each for each in args))
    extent = _scaled(*args) if target is operator.mul else None
    return Count(result, extent, size_of(recorded) if extent is not None else None)


def _is_certain(target: Any, a: Any, b: Any) -> bool:
    """Whether a comparison holds for all masks, as those that export adds."""
    if isinstance(a, Count) and isinstance(b, Count):
        return a.extent is not None and a.extent == b.extent and target in (operator.eq, operator.ge, operator.le)
    if not isinstance(a, Count) or a.extent is None:
        return False
    return (target is operator.ge and b <= 0) or (target is operator.le and b >= a.extent.whole)


def _scaled(a: Any, b: Any) -> Extent | None:
    """The extent of so many rows of a fixed number of elements."""
    count, factor = (a, b) if isinstance(a, Count) else (b, a)
    if count.extent is None or not isinstance(factor, int) or factor < 1:
        return None
    return Extent(count.extent.choice, count.extent.before, count.extent.after * factor)


def _of_type(call: Call) -> Parts:
    return Parts({}, unread=call.operands)


rule("zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", takes=_of_type)(plain)


@rule("arange", takes=lambda call: Parts({}, makes=("numbers",)))
def _numbered(call: Call) -> Any:
    """As many numbers as are chosen, from zero."""
    end = call.given["end"]
    is_from_zero = call.given.get("start", 0) == 0 and call.given.get("step", 1) == 1
    if not isinstance(end, Count) or end.extent is None or not is_from_zero:
        raise refused(
            "counts to how many a mask chooses, but not from zero",
            "count from zero, in steps of one: torch.arange(x[mask].shape[0])",
        )
    extents: Extents = (end.extent,)
    ranks = end.extent.mask.to(torch.int64).cumsum(0) - 1
    ranks = ranks.clamp(min=0).to(call.recorded.dtype)
    return Chosen(ranks, extents, sizes_of(call.recorded), are_ranks=True)
