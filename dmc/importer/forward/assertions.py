"""Assertions about values, as `assert lengths.max().item() <= 5`: where one does not hold, the loss is NaN.

Export keeps the number, and what is computed of it, as operations of Python; these work on tensors, too.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten
NUMBERS = frozenset((aten.item.default, aten._local_scalar_dense.default))
ASSERTS = frozenset((aten._assert_scalar.default, aten._assert_async.default, aten._assert_async.msg))
_COMPARISONS = (operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne)
_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.neg, operator.and_, operator.or_)
_OF_NUMBERS = frozenset((*_COMPARISONS, *_ARITHMETIC))


def is_asserted(node: fx.Node) -> bool:
    """Whether a node is a number, or computed of one, that only assertions read."""
    if node.target not in NUMBERS | _OF_NUMBERS:
        return False
    return all(user.target in ASSERTS or is_asserted(user) for user in node.users)


def number(x: Tensor) -> Tensor:
    """What stands for the number in `x`, which may be written later. Python's integers do not overflow."""
    wide = x.dtype if x.is_floating_point() or x.dtype == torch.bool else torch.int64
    return x.detach().reshape([]).to(wide, copy=True)


def holding(loss: Tensor, conditions: Sequence[Any]) -> Tensor:
    """`loss`, or NaN where one of the conditions does not hold; so are all gradients."""
    for each in conditions:
        loss = loss * torch.where(torch.as_tensor(each).bool(), 1.0, torch.nan).to(loss.dtype)
    return loss
