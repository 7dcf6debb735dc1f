"""Attention masks: what is constant is computed at compile time, and dropped where an attribute of attention
expresses it.

Models build masks from ranges and comparisons, in `forward`. The values of a mask that depends on no input are known:
one that hides exactly what is above the diagonal is `is_causal`, one that hides nothing is no mask. A mask combined
with one that hides nothing, or repeated for every row, is used as it was before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import torch
from torch import fx

from dmc.importer.torch_internals import OpOverload, draws_numbers, may_write, written

aten = torch.ops.aten
_ATTENTION = aten.scaled_dot_product_attention.default
_BOTH = (aten.bitwise_and.Tensor, aten.logical_and.default, aten.__and__.Tensor)
_PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
# A mask of more elements is computed in the step.
_MOST_ELEMENTS = 1 << 28

Known: TypeAlias = dict[fx.Node, torch.Tensor | None]


def recognise_masks(graph: fx.GraphModule) -> None:
    """Rewrites calls of `scaled_dot_product_attention` in place; a mask that only they read becomes unused."""
    changed = frozenset(written(graph.graph))
    known: Known = dict.fromkeys(changed)
    # Layers share a mask, which may have an element for each pair of tokens.
    kinds: dict[fx.Node, bool | None] = {}
    for node in graph.graph.find_nodes(op="call_function", target=_ATTENTION):
        given = {**dict(zip(_PARAMETERS, node.args, strict=False)), **node.kwargs}
        mask = given.get("attn_mask")
        # PyTorch refuses both at once.
        if not isinstance(mask, fx.Node) or given.get("is_causal", False):
            continue
        if mask not in kinds:
            value = _value(mask, known)
            kinds[mask] = None if value is None else _is_causal(value)
        if (is_causal := kinds[mask]) is not None:
            given |= {"attn_mask": None, "dropout_p": given.get("dropout_p", 0.0), "is_causal": is_causal}
        elif (narrow := _narrowest(mask, known, changed)) is not mask:
            given |= {"attn_mask": narrow, "dropout_p": given.get("dropout_p", 0.0), "is_causal": False}
        else:
            continue
        node.args = tuple(given.pop(name) for name in _PARAMETERS)
        node.kwargs = given


def _narrowest(mask: fx.Node, known: Known, changed: frozenset[fx.Node]) -> fx.Node:
    """The mask before it was expanded, or combined with one that hides nothing: attention broadcasts it.

    changed: nodes that are written in place, which may be something else by then.
    """
    while (narrow := _narrower(mask, known)) is not None and narrow not in changed:
        before, after = narrow.meta["val"], mask.meta["val"]
        if before.dtype != torch.bool or before.dim() != after.dim():
            break
        mask = narrow
    return mask


def _narrower(mask: fx.Node, known: Known) -> fx.Node | None:
    operands = [each for each in mask.args if isinstance(each, fx.Node)]
    if mask.target == aten.expand.default:
        return operands[0]
    if mask.target not in _BOTH or len(operands) != 2:
        return None
    hiding = [each for each in operands if not _hides_nothing(each, known)]
    return hiding[0] if len(hiding) == 1 else None


def _hides_nothing(mask: fx.Node, known: Known) -> bool:
    value = _value(mask, known)
    return value is not None and value.dtype == torch.bool and bool(value.all())


def _is_causal(mask: torch.Tensor) -> bool | None:
    """True if the mask hides exactly what is above the diagonal, False if it hides nothing, else None."""
    if mask.dim() < 2:
        return None
    shown = mask if mask.dtype == torch.bool else mask == 0.0
    if mask.dtype != torch.bool and not bool((shown | (mask == -math.inf)).all()):
        return None
    if bool(shown.all()):
        return False
    lower = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
    return True if bool((shown == lower).all()) else None


def _value(node: fx.Node, known: Known) -> torch.Tensor | None:
    """The constant value of a node; None where it depends on an input, on random numbers, or on in-place writes.

    known: results so far; extended.
    """
    pending = [node]
    while pending:
        missing = [each for each in pending[-1].all_input_nodes if each not in known]
        if pending[-1] not in known and missing and _is_plain(pending[-1]):
            pending += missing
            continue
        current = pending.pop()
        if current not in known:
            known[current] = _computed(current, known)
    return known[node]


def _computed(node: fx.Node, known: Known) -> torch.Tensor | None:
    if not _is_plain(node) or any(known[each] is None for each in node.all_input_nodes):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
    result = cast(Callable[..., Any], node.target)(*args, **kwargs)
    return result if isinstance(result, torch.Tensor) else None


def _is_plain(node: fx.Node) -> bool:
    """Whether a node purely computes a tensor, not too large, from its operands."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    value = node.meta.get("val")
    is_pure = not may_write(node) and not draws_numbers(node.target)
    return is_pure and isinstance(value, torch.Tensor) and value.numel() <= _MOST_ELEMENTS
