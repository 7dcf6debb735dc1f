"""What masks of data choose, of which a trace does not know the number, beside PyTorch eager."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.forward.precision import Precision
from tests.choosing import COLUMNS, ROWS, WIDTH, Choosing, Use, batch, itself
from tests.interpreted import InterpretedStep, assert_trains_as_eager


def _reduced(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)
    chosen, of_columns = y[mask], y[:, mask[0]]
    total = chosen.sum() + chosen.mean(0).prod() + y[mask[:, 0]].pow(2).mean() + of_columns.abs().mean((0, 1)).sum()
    extremes = chosen.max() - chosen.amin(1).sum() + chosen.max(0)[0].sum() + y[y > 0].min()
    return total + extremes + chosen.norm() + chosen.norm(dim=1).mean() + chosen.std() + chosen.var(0).sum()


def _counted(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)[mask]
    of_floats = y.sum() / y.shape[0] + y.sum() / max(y.numel(), 1) + y.mean() * (y.shape[0] * 2 + 1) / 3
    hits = (y.argmax(1) == classes[mask]).float()
    return of_floats + (hits * y[:, 0]).mean() + y.mean() * ((classes[mask] > 2).any() | (classes[mask] < 9).all())


def _of_classes(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)
    mean = functional.cross_entropy(y[mask], classes[mask])
    summed = functional.cross_entropy(y[mask], classes[mask], reduction="sum") / mask.sum()
    each = functional.cross_entropy(y[mask], classes[mask], reduction="none") * m.scale[0]
    smooth = functional.cross_entropy(
        y[classes != 0], classes[classes != 0], m.scale.detach(), label_smoothing=0.1, ignore_index=2
    )
    log_p = y[mask].log_softmax(-1)
    return mean + summed + each.mean() + smooth + functional.nll_loss(log_p, classes[mask])


def _of_elements(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y, target = m.linear(x)[mask], (classes > 2).float()[mask]
    loss = functional.mse_loss(y, x[mask]) + functional.l1_loss(y, x[mask], reduction="sum") / 30
    loss = loss + functional.smooth_l1_loss(y, x[mask]) + functional.huber_loss(y, x[mask], reduction="none").mean()
    loss = loss + functional.binary_cross_entropy_with_logits(y[:, 0], target)
    loss = loss + functional.binary_cross_entropy(y[:, 1].sigmoid(), target)
    log_p, p = y.log_softmax(-1), x[mask].softmax(-1)
    return loss + functional.kl_div(log_p, p, reduction="batchmean") + functional.cosine_similarity(y, x[mask]).mean()


def _rows(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    hidden = functional.layer_norm(functional.gelu(m.linear(x[mask])), (WIDTH,)) * m.scale
    hidden = torch.where(hidden > 0, hidden, x[mask]) + functional.embedding(classes[mask], m.linear.weight)
    hidden = torch.cat([hidden, x[mask]], 1).view(-1, 2, WIDTH).transpose(1, 2).flatten(1)[:, 3:9]
    picked = hidden.log_softmax(1).gather(1, classes[mask].unsqueeze(1)).squeeze(1)
    by_number = hidden[torch.arange(hidden.shape[0]), classes[mask]]
    other = hidden - torch.zeros(x[mask].shape[0], WIDTH) - torch.ones_like(hidden)
    return (
        picked.mean()
        + by_number.sum()
        + other.pow(2).mean()
        + (functional.one_hot(classes[mask], WIDTH) * hidden).sum()
    )


def _along(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)[mask]
    attention = (y @ y.t()).softmax(-1)
    joined = torch.cat([y, x[classes > 2]])
    best, places = y.flatten().topk(2)
    gram = (y.t() @ x[mask]).pow(2).mean() + (y.log_softmax(0) * m.scale).sum() / 10 + y.cumsum(0).mean()
    return (attention @ y).pow(2).mean() + joined.pow(2).mean() + best.sum() + gram + places.float().mean()


def _equal_masks(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)
    twice = (y[classes != 2] - x[classes != 2]).abs().mean()
    flat = (y.view(-1, WIDTH)[classes.view(-1) != 2] * x[classes != 2]).mean()
    boxes = mask.unsqueeze(2).expand_as(x)
    rows = functional.smooth_l1_loss(y[boxes].view(-1, WIDTH), x[mask])
    either = (boxes + (classes > 3).unsqueeze(2).expand_as(x)).gt(0)
    both = (y[either].view(-1, WIDTH) * x[(mask + (classes > 3)).gt(0)]).sum()
    return twice + flat + rows + both + y.masked_select(mask.unsqueeze(2)).pow(2).mean()


def _places(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)
    rows, columns = mask.nonzero(as_tuple=True)
    where = torch.where(classes > 1)
    flat = y.view(-1, WIDTH)[mask.flatten().nonzero().squeeze(1)]
    chosen = y[rows, columns] + flat.detach().mean()
    table = torch.zeros(ROWS, COLUMNS)
    table[rows, columns] = chosen[:, 0].sigmoid()
    counts = torch.zeros(WIDTH).index_put((classes[mask],), y[mask][:, 1], accumulate=True)
    return chosen.mean() + y[where].mean() + table.pow(2).mean() + counts.pow(2).mean() + y[mask, classes[mask]].mean()


def _written(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x).clone()
    before = y[mask]
    y[mask] *= 2.0
    y[classes == 0] = m.scale
    y[mask, 0] = before[:, 1] * m.scale[0]
    after = y[mask].mul_(3.0).add_(m.scale)
    y = y.masked_scatter(mask.unsqueeze(2).expand_as(y), (after * 2).reshape(-1))
    kept = x.clone()
    seen = kept[mask]
    kept.zero_()
    return (y * y).mean() + (before * seen).sum() + kept.sum()


def _lengths(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y, n = m.linear(x).clone(), classes[0, 0]
    product = (y[:, :n] * x[:, :n]).sum() + y[0, n - 2 :].sum()
    y[0, :n] = 0.0
    y[1, classes[1, 1] :] = x[1, classes[1, 1] :] * m.scale
    return (y * y).mean() + product


def _twice_chosen(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    with torch.no_grad():
        peak, share = m.linear(x)[mask].max(), x[mask].shape[0] / 2
    with torch.autocast("cpu", enabled=False):
        loss = functional.cross_entropy(m.linear(x)[mask], classes[mask])
    return loss + (m.linear(x)[mask][classes[mask] > 2] - peak).sum() / share


def _poisoned(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """What is not chosen is zero, infinite or NaN, and so would be its logarithm, or its gradient."""
    shown = mask.unsqueeze(2)
    logs = (torch.where(shown, x.abs(), 0.0)[mask] * m.scale).log()
    lost = torch.where(shown, m.linear(x), math.nan)[mask] * m.scale
    infinite = torch.where(shown, x, math.inf)[mask]
    ignored = torch.where(mask, classes, 1000)[mask]
    return logs.mean() + functional.cross_entropy(lost, ignored) + (infinite * m.scale - m.scale).pow(2).mean()


def _label_smoothing(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """As in the Transformer of fairseq, and of "Attention Is All You Need" in PyTorch."""
    log_p, target = m.linear(x).log_softmax(-1).view(-1, WIDTH), classes.view(-1, 1)
    non_pad = target.ne(0)
    nll, smooth = -log_p.gather(1, target)[non_pad], -log_p.sum(1, keepdim=True)[non_pad]
    one = torch.zeros_like(log_p).scatter(1, target, 1.0) * 0.9 + (1.0 - target.ne(0).float()) * 0.1 / WIDTH
    other = -(one * log_p).sum(1).masked_select(non_pad.squeeze(1)).sum()
    return (0.9 * nll.sum() + 0.1 / WIDTH * smooth.sum() + other) / non_pad.sum()


def _triplet(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    distances = torch.cdist(m.linear(x[:, 0]), m.linear(x[:, 1]))
    losses = functional.relu(distances.unsqueeze(2) - distances.unsqueeze(1) + 0.5)
    return losses[losses > 0].mean()


def _summed_over_a_kept_size(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """Of as many rows as columns."""
    y = m.linear(x)[mask]
    attention = (y @ y.t()).softmax(-1)
    rows = torch.einsum("...c,...c->...", y, x[mask])
    return torch.einsum("ij,jk->ik", attention, y).pow(2).mean() + (rows * rows + 1.0).log().sum()


def _nothing_before_the_first(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """Sums and places at elements before the first that is chosen."""
    later = mask & (torch.arange(COLUMNS) > 1) | (torch.arange(COLUMNS) == 4)
    equal = torch.full((ROWS, COLUMNS), -math.inf)[later].argmax(0)
    return (x.abs()[later].cumsum(0) * m.scale).log().mean() + m.linear(x).mean() * (equal + 1.0)


def _numbers_of_rows(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)[mask]
    return y.sum() / y.shape[0] ** 0.5 + y.mean() * (y.shape[0] % 3) + y[:, 0].sum() / y.shape[0] ** 2


def _columns_written(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x)[mask].clone()
    y[:, 0] = 0.0
    y[:, 1:3] = x[mask][:, 1:3]
    return torch.where(y > 1.0, 1.0, y).pow(2).sum()


def _written_between(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    """The same operation of a view, of which the memory is written between."""
    y, rows = m.linear(x), mask.clone()
    view, boxes = rows.unsqueeze(2), (classes > 0).unsqueeze(2).expand_as(x)
    first = view.logical_and(boxes)
    rows[:, 1:3] = True
    return y[first].pow(2).mean() + y[view.logical_and(boxes)].sum()


USES = (
    *(_reduced, _counted, _of_classes, _of_elements, _rows, _along, _equal_masks, _places, _written, _lengths),
    *(_twice_chosen, _poisoned, _label_smoothing, _triplet, _summed_over_a_kept_size, _nothing_before_the_first),
    *(_numbers_of_rows, _columns_written, _written_between),
)


@pytest.mark.parametrize("use", USES)
def test_trains_as_eager(context: Any, use: Use) -> None:
    """Five steps of masks that choose half, all, or few."""
    torch.manual_seed(0)
    batches = [batch(share) for share in (0.5, 1.1, 0.3, 0.7, 0.5)]
    assert_trains_as_eager(context, Choosing(use), itself, batches)


@pytest.mark.parametrize("use", [_of_classes, _of_elements, _label_smoothing])
def test_trains_as_eager_in_mixed_precision(context: Any, use: Use) -> None:
    torch.manual_seed(1)
    batches = [batch(share) for share in (0.5, 1.1, 0.4)]
    assert_trains_as_eager(context, Choosing(use), itself, batches, precision=Precision.BF16_MIXED)


def test_micro_batches_count_their_own(context: Any) -> None:
    torch.manual_seed(2)
    batches = [batch(rows=2 * ROWS) for _ in range(3)]
    assert_trains_as_eager(context, Choosing(_of_classes), itself, batches, accumulate=2)


def _with_sums(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    loss = functional.cross_entropy(m.linear(x)[mask], classes[mask], reduction="sum") + m.linear(x).mean()
    return loss + (m.linear(x)[mask] * m.scale).exp().sum() / max(x[mask].shape[0], 1)


def test_nothing_is_chosen(context: Any) -> None:
    """Sums are zero, and so are gradients."""
    torch.manual_seed(3)
    assert_trains_as_eager(context, Choosing(_with_sums), itself, [batch(-1.0), batch(), batch(-1.0)])


def _at_places(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    table, places = m.linear(x)[..., 0].clone(), mask.nonzero(as_tuple=True)
    table[places] = x[..., 1][places]
    return table.pow(2).sum()


def test_nothing_is_written(context: Any) -> None:
    """What is there keeps its gradient."""
    torch.manual_seed(6)
    assert_trains_as_eager(context, Choosing(_at_places), itself, [batch(-1.0), batch(), batch(-1.0)])


@pytest.mark.parametrize(
    "use",
    [
        lambda m, x, mask, classes: m.linear(x)[mask].mean(),
        lambda m, x, mask, classes: functional.cross_entropy(m.linear(x)[mask], classes[mask]),
        lambda m, x, mask, classes: functional.mse_loss(m.linear(x)[mask], x[mask]),
    ],
)
def test_a_mean_of_nothing_is_nan(context: Any, use: Use) -> None:
    torch.manual_seed(4)
    model, example = Choosing(use), batch(-1.0)
    step = InterpretedStep(context, model, itself, example)
    assert math.isnan(step(*example)) and math.isnan(model(*example[:3]))


@pytest.mark.parametrize(
    "use",
    [
        lambda m, x, mask, classes: m.linear(x)[mask].max(),
        lambda m, x, mask, classes: m.linear(x)[mask].flatten().topk(7)[0].sum(),
        lambda m, x, mask, classes: (m.linear(x)[mask] + torch.ones(15, WIDTH)).sum(),
    ],
)
def test_too_few_for_an_operation_make_the_loss_nan(context: Any, use: Use) -> None:
    """Eager raises."""
    torch.manual_seed(5)
    model, example = Choosing(use), batch(1.1)
    step = InterpretedStep(context, model, itself, example)
    assert step(*example) == pytest.approx(float(model(*example[:3]).detach()), rel=1e-5)
    assert math.isnan(step(*batch(-1.0)))
