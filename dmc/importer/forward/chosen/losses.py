"""Losses of what a mask chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from dmc.importer.forward.chosen.calls import Call, plain, rule
from dmc.importer.forward.chosen.parts import Label, Parts, apart, from_last, rank_of
from dmc.importer.forward.chosen.reductions import masked_mean
from dmc.importer.forward.chosen.values import Chosen, refused

_NONE, _MEAN = 0, 1
_OF_ONE = "has only one of logits and targets that a mask chooses, or different masks choose them"
_OF_BOTH = "choose rows of both by one mask: F.cross_entropy(logits[mask], targets[mask])"
_OF_ELEMENTS = (
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div", "soft_margin_loss"),
    *("binary_cross_entropy_with_logits", "poisson_nll_loss", "hinge_embedding_loss", "margin_ranking_loss"),
)


def _reducing(call: Call, parts: Parts) -> Parts:
    """As the terms take part; these are the result, or summed."""
    return parts if call.given["reduction"] == _NONE else replace(parts, kept=(), summed=parts.kept)


def _of_elements(call: Call) -> Parts:
    return _reducing(call, from_last(call.operands))


def _triplets(call: Call) -> Parts:
    return _reducing(call, from_last(call.operands, (-1,)))


def _of_rows(call: Call) -> Parts:
    """Losses of rows [N, D], or of one [D], of which some operands have one number each [N]."""
    rows: list[Label] = ["rows", "columns"] if max(map(rank_of, call.operands.values())) > 1 else ["columns"]
    names = [name for name in call.operands if name != "weight"]
    labels = {name: rows[: rank_of(call.operands[name])] for name in names}
    return _reducing(call, Parts({**labels, **apart(call.operands, ("weight",))}, ("rows",)))


def _by_terms(call: Call) -> Any:
    """A loss of each element or row, and the mean or sum of those that are chosen."""
    if call.given["reduction"] == _NONE:
        return plain(call)
    terms = call.applied({"reduction": _NONE})
    labels = [*sorted(each for each in call.parts.summed if isinstance(each, int))] or ["rows"]
    extents = tuple(call.along.get(label) for label in labels[len(labels) - terms.dim() :])
    if len(extents) != terms.dim() or sum(each is not None for each in extents) != len(call.along):
        raise refused("combines dimensions whose sizes masks decide")
    chosen = Chosen(terms, extents, (None,) * terms.dim())
    every = list(range(terms.dim()))
    if call.given["reduction"] == _MEAN:
        return masked_mean(chosen, chosen.dims, every, False, terms.dtype)
    return chosen.with_value(0).sum()


rule(*_OF_ELEMENTS, takes=_of_elements)(_by_terms)
rule("triplet_margin_loss", takes=_triplets)(_by_terms)
rule("cosine_embedding_loss", "multilabel_margin_loss", "multi_margin_loss", takes=_of_rows)(_by_terms)


def _of_classes(call: Call) -> Parts:
    """Of logits [N, C, …] and targets [N, …]: class numbers, or a share of each class [N, C, …]."""
    x, target = (call.operands[name] for name in ("self", "target"))
    rank = rank_of(x)
    of_x: list[Label] = ["classes"] if rank == 1 else [0, "classes", *range(1, rank - 1)]
    rows = [label for label in of_x if label != "classes"]
    labels = {"self": of_x, "target": of_x if rank_of(target) == rank else rows, "weight": ["classes"]}
    fills: dict[Label, Any] = {"classes": lambda dtype: torch.finfo(dtype).min} if _is_of_pairs(call) else {}
    return _reducing(call, Parts(labels, rows, fills, broadcasts=False, different=(_OF_ONE, _OF_BOTH)))


@rule("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", takes=_of_classes)
def _by_classes(call: Call) -> Any:
    """What is not chosen is ignored."""
    target = call.given["target"]
    if not isinstance(target, Chosen):
        return plain(call)
    if target.tensor.is_floating_point():
        return _by_terms(call)
    if _is_of_pairs(call):
        target = replace(target, tensor=torch.arange(target.tensor.shape[0]), is_raw=False)
    return call.made(call.applied({"target": target.with_value(call.given["ignore_index"])}))


def _is_of_pairs(call: Call) -> bool:
    """Whether one mask chooses rows and classes, and the k-th row is of the k-th class, as between two views.

    A number to be ignored counts what is chosen, unless there is none.
    """
    x, target = call.operands["self"], call.operands["target"]
    is_square = isinstance(x, Chosen) and isinstance(target, Chosen) and target.are_ranks and len(x.extents) == 2
    is_square = is_square and x.extents == target.extents * 2
    is_square = is_square and call.given["weight"] is None and call.given["ignore_index"] < 0
    return is_square and not call.given.get("label_smoothing")
