"""Reductions are as close to float64 as PyTorch's own, also where numbers are large beside their deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc

# The error that eager itself has, and a rounding of the result.
FACTOR, ROUNDING = 1.25, torch.finfo(torch.float32).eps
CASES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.flatten(1).sum(1),
    "sum of columns": lambda x: x.flatten(1).sum(0),
    "mean": lambda x: x.mean((0, 2, 3)),
    "mean of squares": lambda x: (x * x).mean(),
    "variance": lambda x: x.var((0, 2, 3)),
    "deviation": lambda x: x.std(1),
    "norm": torch.linalg.vector_norm,
    "logsumexp": lambda x: x.flatten(1).logsumexp(1),
    "softmax": lambda x: x.flatten(1).softmax(1),
    "batch norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "layer norm": lambda x: functional.layer_norm(x, x.shape[2:]),
    "group norm": lambda x: functional.group_norm(x, 4),
    "instance norm": functional.instance_norm,
    "rms norm": lambda x: functional.rms_norm(x, x.shape[2:], eps=1e-6),
}


class Reductions(nn.Module):
    """Gives what reductions are of an input."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        return self.unused * 1.0, [case(x) for case in CASES.values()]


def _loss(outputs: Any, target: Tensor) -> Any:
    return outputs


def test_reductions_are_as_exact_as_eager() -> None:
    torch.manual_seed(0)
    x = 1000.0 + 0.5 * torch.randn(32, 16, 16, 16)
    step = dmc.compile(
        Reductions(), loss=_loss, optimizer=dmc.optim.SGD(lr=0.0), example=(x, torch.zeros(1)), verify=False
    )
    outputs = [torch.from_numpy(np.array(each, np.float64)) for each in step(x, torch.zeros(1))[1]]
    for (name, case), actual in zip(CASES.items(), outputs, strict=True):
        exact = case(x.double())
        own, eager = (float((each.double() - exact).norm() / exact.norm()) for each in (actual, case(x)))
        assert own <= FACTOR * eager + ROUNDING, f"{name}: {own:.2e} off, eager {eager:.2e}"
