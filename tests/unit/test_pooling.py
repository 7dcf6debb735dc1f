"""Pooling and upsampling as rules write them mean what PyTorch means, with gradients, NaN and infinities."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dmc.errors import ImportFailure
from tests.decomposed import assert_same, by_rule

aten = torch.ops.aten
SIZES = (7, 6, 5)


def _image(rank: int) -> Tensor:
    torch.manual_seed(rank)
    return torch.randn(2, 3, *SIZES[:rank])


def _compare(target: Any, x: Tensor, *options: Any) -> None:
    assert_same(lambda each: by_rule(target, each, *options), lambda each: target(each, *options), x)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (2, 3, 0), (3, 2, 1), (3, 1, 1), (5, 3, 2)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows(rank: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> None:
    x = _image(rank)
    sizes = ([kernel] * rank, [stride] * rank, [padding] * rank)
    most = getattr(aten, f"max_pool{rank}d_with_indices").default
    _compare(most, x, *sizes, [1] * rank, ceil_mode)
    for with_padding in (False, True):
        mean = getattr(aten, f"avg_pool{rank}d").default
        _compare(mean, x, *sizes, ceil_mode, with_padding)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (4, 1, 2)])
def test_gradients_of_gradients_of_means(kernel: int, stride: int, padding: int) -> None:
    x = _image(1).requires_grad_()

    def thrice(means: Tensor) -> list[Tensor]:
        (once,) = torch.autograd.grad((means**3).sum(), x, create_graph=True)
        (twice,) = torch.autograd.grad((once**2).sum(), x, create_graph=True)
        return [once, twice, *torch.autograd.grad((twice**2).sum(), x)]

    options = ([kernel], [stride], [padding])
    own, eager = by_rule(aten.avg_pool1d.default, x, *options), aten.avg_pool1d.default(x, *options)
    torch.testing.assert_close(thrice(own), thrice(eager))


def test_windows_with_holes_and_without_a_batch() -> None:
    _compare(aten.max_pool2d_with_indices.default, _image(2), [2], [1], [1], [2], True)
    _compare(aten.max_pool2d.default, _image(2)[0], [2, 3])
    _compare(aten.max_pool1d.default, _image(1)[0], [3])
    _compare(aten.avg_pool2d.default, _image(2)[0], [2, 3], [1, 2], [1, 0], False, True, 5)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_windows(rank: int, kind: str) -> None:
    for counts in ([1, 1, 1], [7, 3, 5], [5, 4, 3]):
        _compare(getattr(aten, f"adaptive_{kind}_pool{rank}d").default, _image(rank), counts[:rank])


def test_windows_of_what_is_not_finite() -> None:
    x = _image(2)
    x[0, 0, 2, 3], x[0, 1, 0, 0], x[1, 0, 4, 4], x[1, 1] = math.nan, math.inf, -math.inf, -math.inf
    _compare(aten.max_pool2d.default, x, [3], [2], [1], [1], True)
    _compare(aten.avg_pool2d.default, x, [3], [2], [1])
    _compare(aten.adaptive_avg_pool2d.default, x, [5, 4])
    _compare(aten.adaptive_max_pool2d.default, x, [5, 4])
    _compare(aten.upsample_bilinear2d.vec, x, [9, 11], False, None)
    _compare(aten.upsample_bicubic2d.vec, x, None, False, [1.1, 1.1])
    _compare(aten._upsample_bilinear2d_aa.vec, x, [3, 4], False, None)
    _compare(aten._upsample_bicubic2d_aa.vec, x, [7, 2], False, None)


@pytest.mark.parametrize("aligned", [False, True])
def test_upsampling_by_polynomials(aligned: bool) -> None:
    _compare(aten.upsample_linear1d.vec, _image(1), [11], aligned, None)
    _compare(aten.upsample_trilinear3d.vec, _image(3), None, aligned, [2.0, 0.5, 1.0])
    # The last two keep lengths, though not by their scales.
    by_scales = [[1.7, 2.0], [1.1, 1.1], [2.0, 1.1]]
    for size, scales in (*((None, each) for each in by_scales), ([3, 13], None), ([1, 1], None), ([7, 12], None)):
        _compare(aten.upsample_bilinear2d.vec, _image(2), size, aligned, scales)
        _compare(aten.upsample_bicubic2d.vec, _image(2), size, aligned, scales)


def test_padding_by_copies() -> None:
    _compare(aten.replication_pad1d.default, _image(1), [2, 1])
    _compare(aten.replication_pad2d.default, _image(2), [2, 0, -1, 3])
    _compare(aten.pad.default, _image(2), [2, 0, 1, 3], "replicate")
    _compare(aten.replication_pad3d.default, _image(3), [1, 1, 0, 2, 3, 0])


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_images_without_aliases(kind: str, aligned: bool) -> None:
    target = getattr(aten, f"_upsample_{kind}2d_aa").vec
    for size in ((3, 2), (7, 6), (12, 4), (1, 1)):
        _compare(target, _image(2), size, aligned, None)
    for scales in ([0.5, 0.7], [1.7, 0.4], [1.1, 0.4]):
        _compare(target, _image(2), None, aligned, scales)
    for given in ((None, None), (0.7, None), (0.7, 1.4)):
        _compare(aten._upsample_bilinear2d_aa.default, _image(2), [3, 9], aligned, *given)
    with pytest.raises(ImportFailure, match="to a width of one"):
        by_rule(target, _image(2), (3, 1), aligned, None)
