"""Products of great depth are computed in pieces, and stay right."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

import dmc
from dmc._mlir import ir
from dmc.lowering.kernels.rewrites.split_deep_products import DEEPEST, PIECE, SplitDeepProducts
from dmc.walk import walk
from tests.compiled import assert_descends_as_eager

DEPTH = DEEPEST + PIECE // 2  # The last piece is a smaller one.
PIECES = 5
PRODUCT = """
func.func @product(%a: tensor<64x{depth}xf32>, %w: tensor<32x{depth}xf32>, %c: tensor<64x32xf32>)
    -> tensor<64x32xf32> {{
  %empty = tensor.empty() : tensor<{depth}x32xf32>
  %b = linalg.transpose ins(%w : tensor<32x{depth}xf32>) outs(%empty : tensor<{depth}x32xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%a, %b : tensor<64x{depth}xf32>, tensor<{depth}x32xf32>) outs(%c : tensor<64x32xf32>)
      -> tensor<64x32xf32>
  return %y : tensor<64x32xf32>
}}"""


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(("depth", "products"), [(DEPTH, PIECES), (DEEPEST, 1)])
def test_deep_products_become_a_chain(depth: int, products: int) -> None:
    module = ir.Module.parse(PRODUCT.format(depth=depth))
    SplitDeepProducts().run(module)
    assert module.operation.verify()
    chain = [op for op in walk(module.operation) if op.name == "linalg.matmul"]
    assert len(chain) == products
    assert all(later.operands[2] == earlier.results[0] for earlier, later in pairwise(chain))
    assert sum(op.operands[0].type.shape[1] for op in chain) == depth


def test_a_deep_layer_agrees_with_eager() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DEPTH, 32), nn.Tanh(), nn.Linear(32, 16))
    x, y = torch.randn(64, DEPTH), torch.randn(64, 16)
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=1.0)
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=(x, y))
    assert_descends_as_eager(step, model, loss, (x, y))
