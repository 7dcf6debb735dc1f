"""Attention whose scores a function has modified (`dmc/importer/capture/flex.py`).

A function that adds to the scores what does not depend on them, as ALiBi does, gives a bias: then it is attention with
a bias. Another, such as a soft cap, is run on the scores.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, fx

from dmc.importer.composites.base import LIBRARY, NAMESPACE
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten
_SCORES = "flex_scores(Tensor q, Tensor k, float scale) -> Tensor"
_ATTEND = "flex_attend(Tensor q, Tensor k, Tensor v, Tensor modified, Tensor? mask, float scale, bool bias) -> Tensor"
# What gives the numbers that it is given.
_PASSES = (aten.alias.default, aten.clone.default, aten.expand.default, aten.view.default)


def flex_scores(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """The scores f32 [B, H, M, N] of q [B, H, M, D] and k [B, H, N, D]."""
    return (q @ k.transpose(-1, -2)).float() * scale


def flex_attend(
    q: Tensor, k: Tensor, v: Tensor, modified: Tensor, mask: Tensor | None, scale: float, bias: bool
) -> Tensor:
    """The means of `v` weighted by the softmax of `modified`, the scores, or with `bias` what is added to them. A row
    that sees nothing gives zeros."""
    scores = flex_scores(q, k, scale) + modified if bias else modified
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    peak = scores.amax(-1, keepdim=True)
    weight = (scores - torch.where(peak == -math.inf, 0.0, peak)).exp()
    total = weight.sum(-1, keepdim=True)
    return (weight / torch.where(total == 0.0, 1.0, total)).to(q.dtype) @ v


for _schema, _definition in ((_SCORES, flex_scores), (_ATTEND, flex_attend)):
    LIBRARY.define(_schema)
    LIBRARY.impl(_definition.__name__, _definition, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{_definition.__name__}", _definition, lib=LIBRARY)
SCORES, ATTEND = torch.ops.dmc.flex_scores.default, torch.ops.dmc.flex_attend.default


@rule(SCORES)
def _scores(_random: Randomness, *given: Any) -> Tensor:
    return flex_scores(*given)


@rule(ATTEND)
def _attend(
    random: Randomness, q: Tensor, k: Tensor, v: Tensor, modified: Tensor, mask: Tensor | None, scale: float, bias: bool
) -> Tensor:
    if not bias:
        return flex_attend(q, k, v, modified, mask, scale, bias)
    added = modified if mask is None else torch.where(mask, modified, -math.inf)
    return torch.ops.dmc.attention(q, k, v, added, random.seed, random.counter, 0.0, scale, False)[0]


def recognise_biases(graph: fx.GraphModule) -> None:
    """Where scores are only added to, computes what is added instead."""
    for scores in graph.graph.find_nodes(op="call_function", target=SCORES):
        made = _made_from(scores)
        readers = [node for node in made if node.target is ATTEND]
        if len(readers) != 1 or not _is_sum(readers[0].args[3], scores, made):
            continue
        (reader,) = readers
        value = scores.meta["val"]
        with graph.graph.inserting_before(scores):
            zeros = graph.graph.call_function(
                aten.zeros.default, (list(value.shape),), {"dtype": value.dtype, "device": value.device}
            )
        zeros.meta = dict(scores.meta)
        scores.replace_all_uses_with(zeros)
        graph.graph.erase_node(scores)
        reader.args = (*reader.args[:6], True)


def _made_from(scores: fx.Node) -> set[fx.Node]:
    found = {scores}
    for node in scores.graph.nodes:
        if not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _is_sum(node: Any, scores: fx.Node, made: set[fx.Node]) -> bool:
    """Whether a value is the scores, and what does not depend on them; or minus infinity."""
    if node is scores:
        return True
    if not isinstance(node, fx.Node) or node not in made:
        return False
    if node.target in _PASSES:
        return _is_sum(node.args[0], scores, made)
    first, second, *others = (*node.args, None)
    if node.target is aten.add.Tensor and node.kwargs.get("alpha", 1) == 1:
        return (_is_sum(first, scores, made) and second not in made) or (
            _is_sum(second, scores, made) and first not in made
        )
    if node.target is aten.sub.Tensor:
        return _is_sum(first, scores, made) and second not in made
    is_choice = node.target in (aten.where.self, aten.where.ScalarOther)
    return is_choice and first not in made and _is_sum(second, scores, made) and _hides(others[0])


def _hides(value: Any) -> bool:
    """Whether a value is the number minus infinity."""
    if isinstance(value, fx.Node) and value.target in (aten.scalar_tensor.default, aten.full.default):
        value = value.args[-1]
    return isinstance(value, float) and value == -math.inf
