"""Modules that `forward` converts: to the type and device that they have, which changes nothing, and to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dmc.errors import ImportFailure
from dmc.importer.capture.capture import capture

Convert = Callable[[nn.Module, Tensor], nn.Module]
IDLE: dict[str, Convert] = {
    "float": lambda module, x: module.float(),
    "to a type": lambda module, x: module.to(torch.float32),
    "to a type by its name": lambda module, x: module.to(dtype=torch.float32),
    "to a device": lambda module, x: module.to(x.device),
    "to both": lambda module, x: module.to(x.device, x.dtype),
    "cpu": lambda module, x: module.cpu(),
}


class Converting(nn.Module):
    """A layer that is converted in each call."""

    def __init__(self, convert: Convert) -> None:
        super().__init__()
        self.layer, self.convert = nn.Linear(4, 4), convert

    def forward(self, x: Tensor) -> Tensor:
        """f32[2, 4] → a loss."""
        layer = self.convert(self.layer, x)
        return layer(x.to(next(layer.parameters()).dtype)).sum()


def _captured(convert: Convert) -> Any:
    return capture(Converting(convert), None, (torch.ones(2, 4),), None)


@pytest.mark.parametrize("name", IDLE)
def test_to_what_it_is(name: str) -> None:
    assert set(_captured(IDLE[name]).state) == {"layer.weight", "layer.bias"}


@pytest.mark.parametrize("convert", [lambda module, _: module.bfloat16(), lambda module, _: module.to(torch.float16)])
def test_to_another_type(convert: Convert) -> None:
    with pytest.raises(ImportFailure, match="converts a module to another type") as caught:
        _captured(convert)
    assert caught.value.hint is not None and "before dmc.compile" in caught.value.hint
