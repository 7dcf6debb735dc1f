"""Composites keep their identity in form imported; inlined and compiled, they give what PyTorch gives."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from tests.compiled import model_state

WIDTH, ROWS, LENGTH, BATCH = 16, 12, 6, 3


class Everything(nn.Module):
    """One use of each composite of the forward pass; returns logits of [BATCH · LENGTH, ROWS]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ROWS, WIDTH, padding_idx=0)
        self.layer_norm = nn.LayerNorm(WIDTH, eps=0.05)  # Large enough to count, as below.
        self.rms_norm = nn.RMSNorm(WIDTH, eps=0.1)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.convolution = nn.Conv2d(1, 2, 3, padding=1)
        self.dropout = nn.Dropout(0.0)
        self.head = nn.Linear(WIDTH, ROWS)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """int64[BATCH, LENGTH] → f32[BATCH · LENGTH, ROWS]."""
        x = self.layer_norm(self.embedding(index))
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + functional.gelu(self.rms_norm(x), approximate="tanh")
        x = x + self.lstm(x)[0] + self.gru(x)[0]
        image = functional.max_pool2d(self.convolution(x.unsqueeze(1)), 2)
        x = functional.gelu(self.dropout(x)) + image.mean(dim=(1, 2, 3)).view(-1, 1, 1)
        return self.head(x).flatten(0, 1)


def _loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, targets.flatten(), label_smoothing=0.1)


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randint(0, ROWS, (BATCH, LENGTH), generator=generator) for _ in range(2))
    return first, second


KINDS = {
    "attention",
    "attention_backward",
    "embedding",
    "embedding_backward",
    "gelu",
    "gelu_backward",
    "gru_cell",
    "gru_cell_backward",
    "layer_norm",
    "layer_norm_backward",
    "lstm_cell",
    "lstm_cell_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "optimizer_update_sgd",
    "rms_norm",
    "rms_norm_backward",
    "softmax_cross_entropy",
    "softmax_cross_entropy_backward",
}


@pytest.fixture(scope="module")
def model() -> Everything:
    torch.manual_seed(0)
    return Everything()


@pytest.fixture(scope="module")
def step(model: Everything) -> dmc.runtime.Step:
    # Rate 1 without momentum: the parameters change by exactly their gradients.
    return dmc.compile(model, loss=_loss, optimizer=dmc.optim.SGD(lr=1.0), example=_batch())


def test_composites_keep_their_identity(step: dmc.runtime.Step) -> None:
    forms = step.snapshot().ir
    assert set(re.findall(r'"dm\.composite".*kind = "(\w+)"', forms["01-imported"])) == KINDS
    assert "dm.composite" not in forms["03-scheduled"]


def test_inlined_they_give_what_pytorch_gives(step: dmc.runtime.Step, model: Everything) -> None:
    loss = _loss(model(_batch()[0]), _batch()[1])
    gradients = dict(
        zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True)
    )
    before = {name: value.clone() for name, value in model_state(step).items()}
    assert float(step(*_batch())) == pytest.approx(float(loss.detach()), rel=1e-5)
    after = model_state(step)
    for name, gradient in gradients.items():
        torch.testing.assert_close(before[name] - after[name], gradient, rtol=1e-4, atol=2e-6, msg=name)
