"""Losses of public models that choose elements by masks: of detectors and of language models."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from tests.compiled import clone_state, model_state, train
from tests.eager import EagerTrainer
from tests.interpreted import RATE, assert_trains_as_eager
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

IMAGES, PRIORS, CLASSES, VOCABULARY, LENGTH = 2, 12, 4, 32, 6


class Detector(nn.Module):
    """Boxes [B, priors, 4] and logits [B, priors, classes] of features."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes, self.logits = nn.Linear(8, 4), nn.Linear(8, CLASSES)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.boxes(features), self.logits(features)


def multibox(output: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor]) -> Tensor:
    """SSD's loss (Liu et al., 2016) with hard negatives, as in amdegroot/ssd.pytorch."""
    (loc_data, conf_data), (loc_t, conf_t) = output, targets
    pos = conf_t > 0
    pos_idx = pos.unsqueeze(pos.dim()).expand_as(loc_data)
    loc_p, loc_t = loc_data[pos_idx].view(-1, 4), loc_t[pos_idx].view(-1, 4)
    loss_l = functional.smooth_l1_loss(loc_p, loc_t, reduction="sum")
    batch_conf = conf_data.view(-1, CLASSES)
    loss_c = batch_conf.logsumexp(1, keepdim=True) - batch_conf.gather(1, conf_t.view(-1, 1))
    loss_c = loss_c.view(IMAGES, -1).detach()
    loss_c[pos] = 0
    _, loss_idx = loss_c.sort(1, descending=True)
    _, idx_rank = loss_idx.sort(1)
    num_neg = torch.clamp(3 * pos.long().sum(1, keepdim=True), max=pos.size(1) - 1)
    neg = idx_rank < num_neg.expand_as(idx_rank)
    pos_idx, neg_idx = pos.unsqueeze(2).expand_as(conf_data), neg.unsqueeze(2).expand_as(conf_data)
    conf_p = conf_data[(pos_idx + neg_idx).gt(0)].view(-1, CLASSES)
    loss_c = functional.cross_entropy(conf_p, conf_t[(pos + neg).gt(0)], reduction="sum")
    return (loss_l + loss_c) / pos.sum()


def hard_negatives(loss: Tensor, labels: Tensor) -> Tensor:
    """The positives and, for each, three negatives of the largest loss."""
    pos_mask = labels > 0
    num_neg = pos_mask.long().sum(dim=1, keepdim=True) * 3
    loss = loss.clone()
    loss[pos_mask] = -math.inf
    _, indexes = loss.sort(dim=1, descending=True)
    _, orders = indexes.sort(dim=1)
    return pos_mask | (orders < num_neg)


def multibox_of_rows(output: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor]) -> Tensor:
    """The same, as in qfgaohao/pytorch-ssd."""
    (boxes, confidence), (gt_boxes, labels) = output, targets
    with torch.no_grad():
        mask = hard_negatives(-functional.log_softmax(confidence, dim=2)[:, :, 0], labels)
    confidence = confidence[mask, :]
    classification = functional.cross_entropy(confidence.reshape(-1, CLASSES), labels[mask], reduction="sum")
    pos_mask = labels > 0
    boxes, gt_boxes = boxes[pos_mask, :].reshape(-1, 4), gt_boxes[pos_mask, :].reshape(-1, 4)
    num_pos = gt_boxes.size(0)
    return functional.smooth_l1_loss(boxes, gt_boxes, reduction="sum") / num_pos + classification / num_pos


def objectness(output: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor]) -> Tensor:
    """YOLO's losses at the cells that hold an object, at those that hold none, and of all."""
    (boxes, logits), (gt_boxes, labels) = output, targets
    obj, noobj = labels > 0, labels == 0
    b, cell = obj.nonzero(as_tuple=True)
    chosen = boxes[b, cell]
    loss = functional.mse_loss(chosen[:, :2].sigmoid(), gt_boxes[b, cell][:, :2].sigmoid())
    overlap = (chosen.detach() - gt_boxes[obj]).abs().mean(1).neg().exp()
    tobj = torch.zeros_like(logits[..., 0])
    tobj[b, cell] = overlap
    loss = loss + functional.binary_cross_entropy_with_logits(logits[..., 0], tobj)
    loss = loss + functional.binary_cross_entropy_with_logits(logits[..., 0][noobj], tobj[noobj])
    hot = functional.one_hot(labels, CLASSES).to(logits.dtype)
    return loss + functional.binary_cross_entropy_with_logits(logits[obj][:, 1:], hot[obj][:, 1:])


def detections(share: float) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Features, boxes and labels, of which a share is no background."""
    labels = torch.where(torch.rand(IMAGES, PRIORS) < share, torch.randint(1, CLASSES, (IMAGES, PRIORS)), 0)
    labels[0, 0] = 1
    return torch.randn(IMAGES, PRIORS, 8), (torch.randn(IMAGES, PRIORS, 4), labels)


class Detecting(nn.Module):
    """A detector and its loss."""

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.detector, self.loss = Detector(), loss

    def forward(self, features: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        return self.loss(self.detector(features), (boxes, labels))


@pytest.mark.parametrize("loss", [multibox, multibox_of_rows, objectness])
def test_detectors_train_as_eager(context: Any, loss: Any) -> None:
    torch.manual_seed(0)
    given = [detections(share) for share in (0.2, 0.1, 0.9, 0.2, 0.3)]
    batches = [(features, *targets, torch.zeros([])) for features, targets in given]
    assert_trains_as_eager(context, Detecting(loss), lambda output, _: output, batches)


def masked_words(logits: Tensor, labels: Tensor) -> Tensor:
    """A masked language model's."""
    mask = labels >= 0
    return functional.cross_entropy(logits[mask], labels[mask])


def _language_model() -> nn.Module:
    return nn.Sequential(nn.Embedding(VOCABULARY, 16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, VOCABULARY))


def _words(share: float) -> tuple[Tensor, Tensor]:
    words = torch.randint(VOCABULARY, (8, LENGTH))
    mask = torch.rand(8, LENGTH) < share
    mask[:, 0] = True
    return words, torch.where(mask, words, -1 - words)


def _assert_compiled(model: nn.Module, batches: list[Any], accumulate: int = 1, **options: Any) -> None:
    eager, start = copy.deepcopy(model), clone_state(model)
    step = dmc.compile(
        *(model,),
        loss=masked_words,
        optimizer=dmc.optim.SGD(lr=RATE),
        example=batches[0],
        accumulate=accumulate,
        verify=False,
        **options,
    )
    losses = train(step, batches)
    trainer = EagerTrainer(
        eager, masked_words, torch.optim.SGD(eager.parameters(), lr=RATE), accumulate=accumulate, precision="fp32"
    )
    assert_losses_close(losses, [trainer.step(batch) for batch in batches], TOLERANCE["fp32"])
    assert_states_close(start, model_state(step), eager.state_dict(), TOLERANCE["fp32"])


def test_masked_words_of_two_ranks() -> None:
    """The mask counts what both ranks chose."""
    torch.manual_seed(1)
    plan = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp")
    _assert_compiled(_language_model(), [_words(share) for share in (0.3, 0.0, 0.9, 0.3, 0.5)], plan=plan)


def test_masked_words_of_micro_batches() -> None:
    torch.manual_seed(2)
    _assert_compiled(_language_model(), [_words(share) for share in (0.3, 0.0, 0.9, 0.3, 0.5)], accumulate=2)
