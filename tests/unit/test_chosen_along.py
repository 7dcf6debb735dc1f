"""What PyTorch does not export of sizes that masks decide, and masks that are written twice, beside PyTorch eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.choosing import Choosing, Use, batch, itself
from tests.interpreted import assert_refused, assert_trains_as_eager


def _logsumexp(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)[mask]
    return y.logsumexp(0).sum() + torch.logsumexp(y, (0, 1)) + y.logsumexp(1, keepdim=True).mean()


def _rolled(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """Shifts and dimensions may be numbers or tuples, as eager takes them; also of what no mask chooses."""
    y = m.linear(x)[mask]
    mixed = (torch.roll(y, 1, (1,)) * torch.roll(y, (2,), 1) * torch.roll(x, 1, (1,))[mask]).mean()
    return mixed + (y.roll(2, 1) * x[mask]).sum() + (torch.roll(y, (-1,), dims=(-1,)) * m.scale).pow(2).mean()


def _pairs(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """InfoNCE (van den Oord, Li and Vinyals, 2018) in both directions, as CLIP's."""
    first, second = (functional.normalize(each[mask], dim=-1) for each in (m.linear(x), x))
    scores = first @ second.t() / 0.1
    labels = torch.arange(scores.shape[0])
    summed = functional.cross_entropy(scores, torch.arange(scores.size(1)), reduction="sum") / 20
    return (functional.cross_entropy(scores, labels) + functional.cross_entropy(scores.t(), labels)) / 2 + summed


def _written_through_an_expanded_mask(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y, wide = m.linear(x).clone(), mask[:, :, None].expand(*x.shape)
    y[wide] = x[wide] * m.linear(x)[mask].reshape(-1)
    return (y * y).mean()


def _masks_written_twice(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """Also with their operands the other way round."""
    y = m.linear(x)

    def made(of: Tensor) -> Tensor:
        return (of.detach().sum(-1) > 0.0) | ~mask

    turned = (y[mask & (classes > 1)] - x[(classes > 1) & mask]).pow(2).mean()
    same = (y[made(x)] * x[made(x)]).sum()
    return turned + same + (y[mask.logical_and(classes < 5)] * x[(classes < 5).logical_and(mask)]).sum()


USES = (_logsumexp, _rolled, _pairs, _written_through_an_expanded_mask, _masks_written_twice)


@pytest.mark.parametrize("use", USES)
def test_trains_as_eager(context: Any, use: Use) -> None:
    torch.manual_seed(0)
    assert_trains_as_eager(context, Choosing(use), itself, [batch(share) for share in (0.5, 1.1, 0.3)])


def _of_other_pairs(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """The k-th row is not of the k-th class where rows and classes are chosen by different masks."""
    scores = m.linear(x)[mask] @ x[classes > 2].t()
    return functional.cross_entropy(scores, torch.arange(scores.shape[0]))


def _of_pairs_with_one_ignored(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """Which one of what is chosen, only the running step knows."""
    scores = m.linear(x)[mask] @ x[mask].t()
    return functional.cross_entropy(scores, torch.arange(scores.shape[0]), ignore_index=0)


def _operands_that_may_not_change_places(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    a, b = x[..., 0], x[..., 1]
    return (m.linear(x)[a > b] * x[b > a]).sum()


@pytest.mark.parametrize(
    ("fact", "use"),
    [
        ("works along a dimension whose size a mask decides", _of_other_pairs),
        ("works along a dimension whose size a mask decides", _of_pairs_with_one_ignored),
        ("combines elements that different masks choose", _operands_that_may_not_change_places),
        ("roll depends on how many elements a mask chooses", lambda m, x, mask, c: m.linear(x)[mask].roll(1, 0).sum()),
        (
            "group_norm depends on how many elements a mask chooses",
            lambda m, x, mask, c: functional.group_norm(m.linear(x)[mask], 2).sum(),
        ),
    ],
)
def test_what_is_refused_is_named(context: Any, fact: str, use: Use) -> None:
    assert_refused(context, Choosing(use), fact, itself, batch())
