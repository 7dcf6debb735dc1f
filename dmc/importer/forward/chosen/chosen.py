"""Operations of what a mask chooses, as `x[mask]`: computed of whole tensors, and what is not chosen left out."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dmc.importer.forward.chosen import losses, numbers, products, reductions, selecting, shapes, writes
from dmc.importer.forward.chosen.calls import RULES, Call, Rule, Run, followed
from dmc.importer.forward.chosen.rows import ELEMENTWISE, is_elementwise
from dmc.importer.forward.chosen.values import Choices, Chosen, Count, is_sized_by_data, refused

__all__ = ["losses", "products", "reductions", "shapes", "writes"]

aten = torch.ops.aten
# What makes tensors of sizes that masks decide.
_SELECTING: dict[Any, Rule] = {
    aten.masked_select.default: selecting.MASKED,
    aten.nonzero.default: selecting.PLACES,
    aten.nonzero_numpy.default: selecting.PLACES,
    aten.argwhere.default: selecting.PLACES,
    aten.where.default: selecting.PLACES,
}
SELECTING = (aten.index.Tensor, *_SELECTING)


def computed(
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    recorded: Any,
    run: Run,
    choices: Choices,
    conditions: list[Any],
    is_written: bool,
) -> Any:
    """The result of an operation that chooses by a mask, or of which an operand is chosen; NotImplemented for others.

    recorded: its result as exported. run: computes operations of whole tensors. is_written: whether the result, or
    that from which it is chosen, may be written.
    """
    leaves = pytree.tree_leaves((args, kwargs))
    is_chosen = any(isinstance(each, Chosen | Count) for each in leaves)
    if target is operator.getitem:
        return NotImplemented
    if not is_chosen and not (target in SELECTING and any(map(is_sized_by_data, pytree.tree_leaves(recorded)))):
        return NotImplemented
    if target is aten.sym_size.int:
        return numbers.size(args[0], args[1], recorded)
    if numbers.is_arithmetic(target):
        return numbers.computed(target, args, recorded)
    call = Call(target, args, kwargs, recorded, run, choices, conditions, is_written)
    if target is aten.index.Tensor:
        return followed(*selecting.indexing(call))
    found = _SELECTING.get(target) or RULES.get(call.name)
    if found is None and (is_elementwise(target) or not call.chosen):
        found = ELEMENTWISE
    if found is None:
        raise refused("is not supported for what a mask chooses, whose number data decide")
    return followed(call, found)
