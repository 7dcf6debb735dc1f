"""Losses of what a mask chooses."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dmc.importer.forward.chosen.calls import AGREE, DIFFERENT, Call, check_aligned, rule
from dmc.importer.forward.chosen.reductions import masked_mean
from dmc.importer.forward.chosen.values import Chosen, Extents, refused

_NONE, _MEAN = 0, 1


@rule("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d")
def _of_classes(call: Call) -> Any:
    """What is not chosen is ignored."""
    x, target = call.given["self"], call.given["target"]
    is_of_rows = isinstance(x, Chosen) and x.tensor.dim() > 1 and x.extents[1] is None
    if not is_of_rows or not isinstance(target, Chosen):
        raise refused(
            "has classes, or only one of logits and targets, that a mask chooses",
            "choose rows: F.cross_entropy(logits[mask], targets[mask])",
        )
    if target.tensor.is_floating_point():
        return by_elements(call)
    if (*x.extents[:1], *x.extents[2:]) != target.extents:
        raise refused(DIFFERENT, AGREE)
    ignored = call.given["ignore_index"]
    return call.made(call.applied({"target": target.with_value(ignored)}))


@rule(
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div", "soft_margin_loss"),
    *("binary_cross_entropy_with_logits", "poisson_nll_loss", "hinge_embedding_loss", "margin_ranking_loss"),
    *("cosine_embedding_loss", "triplet_margin_loss", "multilabel_margin_loss", "multi_margin_loss"),
)
def by_elements(call: Call) -> Any:
    """A loss of each element or row, and the mean or sum of those that are chosen."""
    if call.given["reduction"] == _NONE:
        return call.kept()
    check_aligned(call.chosen, from_front=len({each.tensor.dim() for each in call.chosen}) > 1)
    terms = call.applied({"reduction": _NONE})
    extents = _extents(call, terms)
    chosen = Chosen(terms, extents, (None,) * terms.dim())
    every = list(range(terms.dim()))
    if call.given["reduction"] == _MEAN:
        return masked_mean(chosen, chosen.dims, every, False, terms.dtype)
    return chosen.with_value(0).sum()


def _extents(call: Call, terms: Tensor) -> Extents:
    """Of terms whose dimensions are the first of the operands'."""
    widest = max(call.chosen, key=lambda each: each.tensor.dim())
    extents = widest.extents[: terms.dim()]
    wholes = widest.tensor.shape[: terms.dim()]
    if tuple(wholes) != tuple(terms.shape) or not any(extents) or any(widest.extents[terms.dim() :]):
        raise refused("combines dimensions whose sizes masks decide")
    return extents
