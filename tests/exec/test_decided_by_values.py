"""Modules of PyTorch that look at values: the trace knows none, and means the same for all."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from tests.interpreted import InterpretedStep, assert_trains_as_eager

WIDTH = 4


def test_batch_norm_without_momentum(context: Any) -> None:
    """The running statistics are means over all batches, whichever way they are counted."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 3), nn.BatchNorm1d(3, momentum=None))
    counted = model.get_buffer("1.num_batches_tracked")
    counted.fill_(2)
    batches = [(torch.randn(8, WIDTH) + i, torch.randn(8, 3)) for i in range(3)]
    step = assert_trains_as_eager(context, model, functional.mse_loss, batches)
    assert int(step.model_state()["1.num_batches_tracked"]) == 5


class Sparse(nn.Module):
    """Tables whose gradients are sparse in eager; bags of any size, one of them empty."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, WIDTH, sparse=True, padding_idx=1)
        self.bag = nn.EmbeddingBag(9, WIDTH, sparse=True, mode="sum")
        self.mean = nn.EmbeddingBag(9, WIDTH, padding_idx=2, include_last_offset=True)

    def forward(self, index: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        bags = self.bag(index.flatten(), offsets[:-1], weights) + self.mean(index.flatten(), offsets)
        return self.table(index).sum(1) * self.bag(index) + bags


def test_sparse_gradients_are_dense() -> None:
    """Also when the compiler compares with eager's sparse ones, and clips them."""
    torch.manual_seed(0)
    offsets = torch.tensor([0, 2, 2, 7, 11, 15])
    example = torch.randint(9, (5, 3)), offsets, torch.randn(15), torch.randn(5, WIDTH)
    sgd = dmc.optim.SGD(lr=0.1, clip_grad_norm=0.5)
    assert dmc.compile(Sparse(), loss=functional.mse_loss, optimizer=sgd, example=example, verify=True)


class Encoder(nn.Module):
    """A mask from the batch, and one made inside `forward`."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=True)
        self.one = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.two = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.two(self.one(x, mask), nn.Transformer.generate_square_subsequent_mask(x.shape[1]))


def test_masks_are_not_compared_with_the_causal_one(context: Any) -> None:
    torch.manual_seed(0)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    other = torch.where(torch.rand(5, 5) < 0.3, -math.inf, 0.0).fill_diagonal_(0.0)
    batches = [(torch.randn(2, 5, WIDTH), mask, torch.randn(2, 5, WIDTH)) for mask in (causal, other, causal)]
    assert_trains_as_eager(context, Encoder(), functional.mse_loss, batches)


class Gaussian(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor, variance: Tensor, target: Tensor) -> Tensor:
        one = nn.GaussianNLLLoss(full=True)(self.mean(x), target, variance)
        return one + functional.gaussian_nll_loss(self.mean(x), target, var=variance[:, :1], reduction="sum", eps=0.1)


def _itself(loss: Tensor, _: Tensor) -> Tensor:
    return loss


def test_a_variance_below_zero_gives_nan(context: Any) -> None:
    torch.manual_seed(0)
    model = Gaussian()
    variance = torch.tensor([[0.0, 1.0], [0.05, 2.0], [3.0, 0.5]])
    batch = (torch.randn(3, WIDTH), variance, torch.randn(3, 2), torch.zeros(()))
    step: InterpretedStep = assert_trains_as_eager(context, model, _itself, [batch, batch])
    assert math.isnan(step(batch[0], variance - 0.01, *batch[2:]))


class GaussianHead(nn.Module):
    """The variance is learnt, too."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        mean, deviation = self.both(x).chunk(2, -1)
        return functional.gaussian_nll_loss(mean, target, deviation.square(), eps=0.3)


def test_a_variance_below_epsilon_keeps_its_gradient(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(8, WIDTH), torch.randn(8, 2), torch.zeros(())) for _ in range(2)]
    assert_trains_as_eager(context, GaussianHead(), _itself, batches)


class Moments(nn.Module):
    """Covariances with weights and without, and a part whose place is a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(WIDTH, 3, bias=False)

    def forward(self, x: Tensor, weights: Tensor, place: Tensor) -> Tensor:
        rows = self.rows(x).T
        every = [rows.cov(correction=2), torch.cov(rows, fweights=weights, aweights=weights.float().sqrt())]
        return torch.stack([*every, torch.corrcoef(rows), torch.narrow(rows, 1, place, 3)])


def test_moments_and_places(context: Any) -> None:
    torch.manual_seed(0)
    weights = torch.tensor([1, 4, 2, 0, 3, 1])
    batches = [(torch.randn(6, WIDTH), weights, torch.tensor(at), torch.randn(4, 3, 3)) for at in (2, -3)]
    step = assert_trains_as_eager(context, Moments(), functional.mse_loss, batches)
    # Eager refuses what is beyond the end.
    assert math.isnan(step(*batches[0][:2], torch.tensor(4), batches[0][3]))
