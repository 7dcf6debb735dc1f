"""Pooling and convolutions compiled; writes at computed places, scans and factorisations interpreted; beside eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from bench.coverage.check import check
from bench.coverage.steps import Sample
from tests.compiled import assert_descends_as_eager
from tests.interpreted import assert_trains_as_eager
from tests.large import large_unless


class Images(nn.Module):
    """Windows over one image: the kinds that make few kernels, or the others."""

    def __init__(self, kinds: str) -> None:
        super().__init__()
        self.kinds = kinds
        self.image = nn.Parameter(torch.randn(2, 4, 7, 6))
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.grouped = nn.Conv1d(4, 8, 3, stride=2, groups=2)
        self.up = nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1)

    def forward(self, factor: torch.Tensor) -> list[torch.Tensor]:
        """The results, each to be added up."""
        x = self.depthwise(self.image * factor)
        row, volume = x[:, :, 0], x.unsqueeze(2).expand(-1, -1, 3, -1, -1)
        if self.kinds == "few kernels":
            return [
                self.grouped(row),
                self.up(x),
                functional.max_pool2d(x, 3, 2, ceil_mode=True),
                functional.interpolate(x, scale_factor=1.5, mode="bilinear"),
            ]
        return [
            functional.max_pool1d(row, 3, 2, 1, ceil_mode=True),
            functional.max_pool3d(volume, 2),
            functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            functional.adaptive_avg_pool2d(x, (3, 4)),
            functional.adaptive_max_pool2d(x, (3, 4)),
            functional.interpolate(x, (5, 9), mode="bicubic", align_corners=True),
            functional.pad(x, (1, 2, 0, 1), mode="replicate"),
        ]


class Rows(nn.Module):
    """Places that are computed, scans, and small matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.randn(4, 5))
        self.y = nn.Parameter(torch.randn(3, 5))

    def forward(self, index: torch.Tensor) -> list[torch.Tensor]:
        """The results, each to be added up; `index` int64[3] below 4."""
        x, y = self.x, self.y
        written = x.clone()
        written[index] = y
        masked = x.clone()
        masked[:, index] *= 2.0
        square = x @ x.mT + torch.eye(4)
        return [
            written,
            masked,
            x.index_add(0, index, y),
            x.scatter_reduce(0, index.unsqueeze(1).expand(3, 5), y, "amax"),
            x.cumprod(1),
            x.cummax(0).values,
            x.logcumsumexp(1),
            x.median(1).values,
            torch.cdist(x, y),
            torch.linalg.cholesky(square),
            torch.linalg.solve(square, x),
            torch.linalg.slogdet(square).logabsdet,
            torch.lgamma(x.exp()),
        ]


def _total(outputs: Any, scale: torch.Tensor) -> Any:
    # Each element counts differently, so that a gradient at the wrong place is seen.
    weights = [torch.linspace(-1.0, 2.0, each.numel()).reshape(each.shape) for each in outputs]
    return scale * sum((each * weight).mean() for each, weight in zip(outputs, weights, strict=True))


@pytest.mark.parametrize("kinds", large_unless(("few kernels",), ("few kernels", "others")))
def test_windows_descend_as_eager(kinds: str) -> None:
    torch.manual_seed(0)
    model, example = Images(kinds), (torch.ones(()), torch.ones(()))
    for layer in (model.grouped, model.up) if kinds == "others" else ():
        layer.requires_grad_(False)
    step = dmc.compile(model, loss=_total, optimizer=dmc.optim.SGD(lr=1.0), example=example)
    assert_descends_as_eager(step, model, _total, example)


def test_other_windows_descend_as_eager() -> None:
    torch.manual_seed(0)
    verdict = check([Sample(Images("others"), (torch.ones(()),))])
    assert verdict.outcome == "agrees", verdict.text


def test_places_descend_as_eager() -> None:
    torch.manual_seed(0)
    verdict = check([Sample(Rows(), (torch.tensor([2, 0, 3]),))])
    assert verdict.outcome == "agrees", verdict.text


class Assigned(nn.Module):
    """Vectors, numbers and rows that have a gradient, assigned or added at masks; windows of transposed memory."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.vector = nn.Parameter(torch.randn(3, 4, 5)), nn.Parameter(torch.randn(5))
        self.number, self.rows = nn.Parameter(torch.randn(())), nn.Parameter(torch.randn(3, 1, 5))
        self.row = nn.Conv1d(4, 2, 2, padding="valid", bias=False)
        self.image = nn.Conv2d(1, 2, 2, stride=2, padding="valid", bias=False)

    def forward(self, mask: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        one, two = self.x * 2.0, self.x.clone()
        one[mask] = self.vector
        one[:, columns] = self.rows
        two = two.index_put((mask,), self.vector, accumulate=True)
        two[mask.any(1)] = self.number
        turned = (one * two).transpose(0, 1)
        windows = turned.as_strided((4, 5, 5), (10, 5, 1))
        images = self.image(one.unsqueeze(1)).sum() + self.row(two).square().sum()
        return (windows * torch.arange(100.0).view(4, 5, 5)).mean() + images


def test_assignments_at_masks_and_windows_of_memory(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.rand(3, 4) < 0.4, torch.rand(4) < 0.5, torch.zeros(())) for _ in range(2)]
    assert_trains_as_eager(context, Assigned(), lambda result, _: result, batches)
