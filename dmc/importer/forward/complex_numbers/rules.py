"""Operations with complex operands or results, by the tables of this folder."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer.forward.complex_numbers import fourier, pairs
from dmc.importer.forward.complex_numbers.pairs import Complex, is_complex, pair
from dmc.importer.torch_internals import name_of

# Conversions of type and place.
_CONVERSIONS = ("to", "_to_copy", "type_as")
# Reads at computed places, which may be out of range.
_PLACES = ("gather", "index", "index_select")
_RULES = {**pairs.RULES, **fourier.RULES}


def is_supported(node: fx.Node) -> bool:
    """Whether an operation of the exported graph has a rule for complex numbers."""
    if not isinstance(node.target, OpOverload):
        return node.target is operator.getitem
    return name_of(node.target) in _RULES or name_of(node.target) in _CONVERSIONS


def computed(target: Any, args: Any, kwargs: Any, expected: Any, real: Callable[[Any], Callable[..., Any]]) -> Any:
    """The result of an operation with complex operands or results, which are like `expected`; else NotImplemented.

    real: what an operation of real tensors does.
    """
    given = pytree.tree_leaves((args, kwargs), is_leaf=is_complex)
    results = [each for each in pytree.tree_leaves(expected) if isinstance(each, Tensor)]
    if not any(map(is_complex, given)) and not any(each.is_complex() for each in results):
        return NotImplemented
    if target is operator.getitem:
        return args[0][args[1]]
    if isinstance(target, OpOverload) and name_of(target) in _CONVERSIONS:
        return _converted(args[0], results[0])
    if isinstance(target, OpOverload) and name_of(target) in _PLACES:
        return pairs.each_part(real(target), *args, **kwargs)
    rule = _RULES.get(name_of(target)) if isinstance(target, OpOverload) else None
    if rule is None:
        hint = "use two real tensors (torch.view_as_real)"
        raise ImportFailure(None, "is not supported for complex numbers", hint)
    return rule(*args, **kwargs)


def _converted(x: Complex | Tensor, expected: Tensor) -> Complex | Tensor:
    if expected.is_complex():
        return x if isinstance(x, Complex) else pair(x.to(torch.float32, copy=True))
    return x.re.to(expected.dtype) if isinstance(x, Complex) else x.to(expected.dtype)
