"""The benchmarks' models, their optimizer and its reference in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

import dmc
from tests.models import bert_small, demo_gpt, lstm
from tests.models.case import Case

RATE = 1e-4
CLIP = 1.0

# Demo GPT without dropout, as in the demo; BERT and the LSTM with their usual dropout.
CASES: Mapping[str, Callable[[], Case]] = {
    "demo_gpt": lambda: demo_gpt.build_bench(0.0),
    "bert_small": lambda: bert_small.build(0.1),
    "lstm": lambda: lstm.build_bench(0.1),
}


def own_optimizer(eps: float = 1e-8) -> dmc.optim.AdamW:
    """AdamW with clipping for dmc."""
    return dmc.optim.AdamW(lr=RATE, weight_decay=0.1, eps=eps, clip_grad_norm=CLIP)


def torch_optimizer(model: torch.nn.Module) -> torch.optim.AdamW:
    """The same for PyTorch, in its fastest form (`fused`); clipping is the trainer's."""
    return torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, fused=True)
