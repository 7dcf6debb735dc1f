"""Connectionist temporal classification (Graves et al., 2006, section 4.1): PyTorch's kernel sizes its table by the
longest target, which data decide, so that export cannot take it. Here it has a column for every target there is room
for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Lengths = Tensor | Sequence[int]
_NONE, _MEAN = ("none", 0), ("mean", 1)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """`torch.nn.functional.ctc_loss` of log_probs [T, N, C] and targets [N, S], or all targets in a row; without N, of
    one sequence.

    A length out of range, for which eager raises, makes the loss NaN, and so does a target that is no class.
    """
    is_single = log_probs.dim() == 2
    wide = (log_probs.unsqueeze(1) if is_single else log_probs).float()
    steps, batch, _ = wide.shape
    inputs, lengths = (torch.as_tensor(each).reshape(-1).to(torch.int64) for each in (input_lengths, target_lengths))
    rows = _rows(targets.to(torch.int64), lengths, batch, is_single)
    loss = _losses(wide, rows, inputs, lengths, blank)
    inside = torch.arange(steps).unsqueeze(1) < inputs
    is_lost = torch.isinf(loss).detach()
    # PyTorch's gradient is that for the outputs of a softmax, whose probabilities it adds.
    shares = torch.where(inside.unsqueeze(2), wide.exp(), 0.0).sum((0, 2))
    loss = loss + torch.where(is_lost, 0.0, shares - shares.detach())
    loss = torch.where(is_lost, 0.0, loss) if zero_infinity else loss + _without_slope(wide, inside, is_lost)
    places = torch.arange(rows.shape[1])
    is_wrong = (rows < 0) | (rows >= wide.shape[2])
    is_bad = (inputs < 0) | (inputs > steps) | (lengths < 0) | (lengths > rows.shape[1])
    is_bad = is_bad | (is_wrong & (places < lengths.unsqueeze(1))).any(1)
    loss = torch.where(is_bad, math.nan, loss).to(log_probs.dtype)
    if reduction in _NONE:
        return loss.squeeze(0) if is_single else loss
    return (loss / lengths.clamp(min=1).to(loss.dtype)).mean() if reduction in _MEAN else loss.sum()


def _rows(targets: Tensor, lengths: Tensor, batch: int, is_single: bool) -> Tensor:
    """The targets of each sequence in a row of their own [N, S]."""
    if is_single or targets.dim() == 2:
        return targets.reshape(batch, -1)
    place = (lengths.cumsum(0) - lengths).unsqueeze(1) + torch.arange(targets.numel())
    return targets.index_select(0, place.clamp(0, max(targets.numel() - 1, 0)).reshape(-1)).reshape(batch, -1)


def _losses(log_probs: Tensor, rows: Tensor, inputs: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """-log p of each row [N]: infinite where no alignment is possible."""
    steps, batch, classes = log_probs.shape
    known = rows.clamp(0, classes - 1)
    # Blanks before, between and behind the targets.
    labels = torch.stack([torch.full_like(known, blank), known], 2).reshape(batch, -1)
    labels = torch.cat([labels, torch.full_like(labels[:, :1], blank)], 1)
    columns = labels.shape[1]
    emitted = log_probs.gather(2, labels.expand(steps, batch, columns))
    place, has_targets = torch.arange(columns), (lengths > 0).unsqueeze(1)
    starts = (place == 0) | ((place == 1) & has_targets)
    # From a label to the next, unless they are equal.
    before = torch.cat([labels[:, :1].expand(batch, min(2, columns)), labels[:, :-2]], 1)[:, :columns]
    skips = (place > 1) & (labels != blank) & (labels != before)
    # Of no steps, what remains to be emitted is everything.
    alpha = torch.where(starts, torch.where((inputs > 0).unsqueeze(1), emitted[0], _nothing(place)), -math.inf)
    for t in range(1, steps):
        one, two = _shifted(alpha, 1), torch.where(skips, _shifted(alpha, 2), -math.inf)
        alpha = torch.where((t < inputs).unsqueeze(1), _log_sum(alpha, one, two) + emitted[t], alpha)
    last = (2 * lengths).clamp(0, columns - 1).unsqueeze(1)
    ends = [alpha.gather(1, last), alpha.gather(1, (last - 1).clamp(min=0))]
    ends[1] = torch.where(has_targets, ends[1], -math.inf)
    return -_log_sum(*ends).squeeze(1)


def _nothing(place: Tensor) -> Tensor:
    """The only way to emit nothing."""
    return torch.where(place == 0, 0.0, -math.inf)


def _shifted(alpha: Tensor, count: int) -> Tensor:
    edge = torch.full_like(alpha[:, :1], -math.inf).expand(len(alpha), count)
    return torch.cat([edge, alpha], 1)[:, : alpha.shape[1]]


def _log_sum(*terms: Tensor) -> Tensor:
    """log Σ exp, whose gradient is zero where all terms are -inf."""
    peak = torch.stack(terms).amax(0).detach()
    peak = torch.where(peak == -math.inf, 0.0, peak)
    total = torch.stack([(term - peak).exp() for term in terms]).sum(0)
    is_nothing = total == 0.0
    return torch.where(is_nothing, -math.inf, torch.where(is_nothing, 1.0, total).log() + peak)


def _without_slope(log_probs: Tensor, inside: Tensor, is_lost: Tensor) -> Tensor:
    """Zeros, whose gradient is NaN for sequences that cannot be aligned, as PyTorch's: it meets infinities of both
    signs."""
    taken = torch.where(inside.unsqueeze(2), log_probs, 0.0).sum((0, 2))
    root = torch.where(is_lost, taken - taken.detach(), 1.0).sqrt()
    return torch.where(is_lost, root - root, 0.0)
