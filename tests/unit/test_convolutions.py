"""Convolutions with groups, transposed ones, and their gradients."""

from __future__ import annotations

import pytest
import torch

from dmc.importer.decompositions import convolutions
from tests.decomposed import assert_same

aten = torch.ops.aten
SIZES, KERNEL = (9, 8, 7), (3, 2, 3)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("window", [(1, 0, 1), (2, 1, 1), (3, 1, 2), (1, 1, 2), (4, 0, 1)])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank: int, groups: int, window: tuple[int, int, int], transposed: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, *SIZES[:rank])
    outputs, inputs = (4, 8 // groups) if transposed else (8, 4 // groups)
    weight, bias = torch.randn(outputs, inputs, *KERNEL[:rank]), torch.randn(8)
    stride, padding, dilation = ([each] * rank for each in window)
    extra = [int(transposed and max(window) > 1)] * rank
    options = (stride, padding, dilation, transposed, extra, groups)

    def convolution(*tensors: torch.Tensor) -> torch.Tensor:
        return aten.convolution.default(*tensors, *options)

    assert_same(convolution, convolution, x.double(), weight.double(), bias.double())


def test_what_torch_mlir_does_well_is_left_to_it() -> None:
    x, weight = torch.randn(1, 2, 5, 5), torch.randn(2, 2, 3, 3)
    own = convolutions.OWN[aten.convolution.default]
    assert own(x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1) is NotImplemented
