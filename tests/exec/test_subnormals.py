"""Numbers below the smallest normal one are what they are in eager, on every thread of a compiled step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import dmc

# Of many elements, so that a dispatch has parts for every thread.
COUNT = 1 << 16
# Operations that round once: the same bits as eager's.
EXACT: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "copy": lambda x, y: x,
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: y - x,
    "product": lambda x, y: x * 0.75,
    "product_of_normals": lambda x, y: (x * 2.0**80) * (y * 2.0**-80),
    "quotient": lambda x, y: y / x,
    "half": lambda x, y: y.to(torch.bfloat16),
    "comparison": lambda x, y: (x > 0.0).float(),
    "largest": lambda x, y: torch.maximum(x, 0.0 * y),
    "rows": lambda x, y: x.view(256, -1).amax(1),
}
# Others are approximated; of a power, by as much as its exponent is rounded.
CLOSE: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "root": lambda x, y: torch.sqrt(x),
    "log": lambda x, y: torch.log(x),
    "log2": lambda x, y: torch.log2(x),
    "log10": lambda x, y: torch.log10(x),
    "exp": lambda x, y: torch.exp(torch.log(y)),
    "exp_below": lambda x, y: torch.exp(-87.0 - x * 2.0**130),
    "exp2": lambda x, y: torch.exp2(-126.0 - x * 2.0**130),
    "softplus": lambda x, y: nn.functional.softplus(-87.0 - x * 2.0**130),
    "total": lambda x, y: x.view(256, -1).sum(1),
}


class Applied(nn.Module):
    """Gives what operations are of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
        return self.unused * 1.0, [each(x, y) for each in (*EXACT.values(), *CLOSE.values())]


def _loss(outputs: Any, target: Tensor) -> Any:
    return outputs


def test_subnormal_numbers_are_kept() -> None:
    least = torch.arange(1, COUNT + 1, dtype=torch.float32) * 2.0**-149
    x, y = least * 101.0, least * 3.0
    assert float(y.min()) > 0.0 and float(x.max()) < torch.finfo(torch.float32).tiny
    model, sgd = Applied(), dmc.optim.SGD(lr=0.0)
    step = dmc.compile(model, loss=_loss, optimizer=sgd, example=(x, y, torch.zeros(1)), verify=False)
    outputs = [torch.from_numpy(np.asarray(each).astype(np.float64)) for each in step(x, y, torch.zeros(1))[1]]
    named = zip((*EXACT, *CLOSE), outputs, model(x, y)[1], strict=True)
    for name, actual, expected in named:
        off = (actual - expected.double()).abs()
        allowed = expected.double().abs() * 2e-5 + 2.0**-149 * 1.01 if name in CLOSE else torch.zeros(())
        assert bool((off <= allowed).all()), f"{name}: {off.max()} off, of {expected.abs().max()}"
