"""Images and volumes sampled at computed places mean what PyTorch means, with gradients of both."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.decomposed import assert_same, by_rule
from tests.interpreted import assert_trains_as_eager

sample = torch.ops.aten.grid_sampler_3d.default


@pytest.mark.parametrize(("padding", "align_corners"), list(itertools.product([0, 1, 2], [False, True])))
@pytest.mark.parametrize("mode", [0, 1])
def test_volumes(mode: int, padding: int, align_corners: bool) -> None:
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 4, 3, 5), torch.randn(2, 3, 2, 4, 3) * 1.5
    options = (mode, padding, align_corners)
    assert_same(lambda a, b: by_rule(sample, a, b, *options), lambda a, b: sample(a, b, *options), x, grid, rtol=1e-4)


@pytest.mark.parametrize(("padding", "align_corners"), list(itertools.product([0, 1, 2], [False, True])))
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_images(mode: int, padding: int, align_corners: bool) -> None:
    torch.manual_seed(0)
    x, grid = torch.randn(2, 2, 4, 3), torch.randn(2, 3, 2, 2) * 1.2
    options, image = (mode, padding, align_corners), torch.ops.aten.grid_sampler_2d.default
    assert_same(lambda a, b: by_rule(image, a, b, *options), lambda a, b: image(a, b, *options), x, grid, rtol=1e-4)


def test_a_volume_and_an_image_train_as_eager(context: Any) -> None:
    class Sampled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grid = nn.Parameter(torch.rand(1, 2, 2, 2, 3) - 0.5)

        def forward(self, x: Tensor) -> Tensor:
            image = functional.grid_sample(x.mean(2), self.grid[:, 0, ..., :2], align_corners=False)
            return functional.grid_sample(x, self.grid, align_corners=False) * image.unsqueeze(2)

    torch.manual_seed(0)
    batches = [(torch.randn(1, 2, 3, 4, 3), torch.randn(1, 2, 2, 2, 2)) for _ in range(2)]
    assert_trains_as_eager(context, Sampled(), functional.mse_loss, batches)


def test_one_element_and_the_edges() -> None:
    grid = torch.tensor([-1.0, 0.0, 1.0, -3.0, 3.0]).view(1, 5, 1, 1, 1).expand(1, 5, 1, 1, 3).contiguous()
    for shape, padding, align_corners in itertools.product([(1, 1, 1), (2, 3, 4)], [0, 1, 2], [False, True]):
        x, options = torch.arange(1.0, 1.0 + torch.Size(shape).numel()).view(1, 1, *shape), (0, padding, align_corners)
        torch.testing.assert_close(by_rule(sample, x, grid, *options), sample(x, grid, *options))
