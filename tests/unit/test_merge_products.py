"""A step computes the same where products around attention are merged, and only what shares a factor is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import parse_pipeline, run_passes
from dmc.step_function import find_step
from dmc.walk import walk
from tests.partitioned import run_on_one_rank

WIDTH, HEADS, BATCH, LENGTH = 32, 2, 3, 8
BEFORE = "dm-absorb-casts,dm-inline-composites{keep_whole},canonicalize,cse"
MERGING = "dm-merge-products"


class Attention(nn.Module):
    """Attention with layers of their own for queries, keys and values, in front of a projection of the inputs.

    across: keys and values are of another tensor than queries. trained: whether the keys' layer is.
    """

    def __init__(self, *, bias: bool = True, across: bool = False, trained: bool = True) -> None:
        super().__init__()
        self.before = nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(3))
        self.across = across
        self.key.requires_grad_(trained)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        other = x.flip(1) if self.across else x
        q, k, v = (self._heads(*each) for each in ((self.query, x), (self.key, other), (self.value, other)))
        y = functional.scaled_dot_product_attention(q, k, v)
        return x + y.transpose(1, 2).reshape(x.shape)

    def _heads(self, layer: nn.Linear, x: Tensor) -> Tensor:
        return layer(x).view(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)


def batch() -> tuple[Tensor, Tensor]:
    """Inputs and targets."""
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.randn(BATCH, LENGTH, WIDTH, generator=generator) for _ in range(2))
    return first, second


# Of eleven products: of the layer before two, of each of the others three.
@pytest.mark.parametrize(
    ("options", "precision", "products"),
    [
        ({}, Precision.BF16_MIXED, 2 + 3),
        ({"bias": False}, Precision.BF16_MIXED, 2 + 3),
        ({"across": True}, Precision.BF16_MIXED, 2 + 3 + 3),
        # All or none of the readers of a gradient.
        ({"trained": False}, Precision.BF16_MIXED, 2 + 1 + 5),
        # The weights would be copied.
        ({}, Precision.FP32, 2 + 9),
    ],
)
def test_a_step_with_merged_products_gives_what_it_gave(
    context: Any, options: dict[str, bool], precision: Precision, products: int
) -> None:
    torch.manual_seed(0)
    model = Attention(**options)
    imported = import_step(model, functional.mse_loss, dmc.optim.SGD(lr=0.5), batch(), precision, 1, 0, context)
    state = [tensor.detach().clone().numpy() for tensor in imported.state.values()]
    given = [*state, np.array([0.5], np.float32), np.array(0, np.int32), *(tensor.numpy() for tensor in batch())]
    run_passes(imported.module, parse_pipeline(BEFORE))
    before = run_on_one_rank(imported.module, [each.copy() for each in given])
    run_passes(imported.module, parse_pipeline(MERGING))
    assert [op.name for op in walk(find_step(imported.module))].count("linalg.matmul") == products
    after = run_on_one_rank(imported.module, [each.copy() for each in given])
    # A gradient that was a sum of three rounded products is rounded once.
    for wanted, found in zip(before, after, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)
