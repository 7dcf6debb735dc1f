"""A partitioned step, run on all ranks, gives what one rank gives, whatever the placements of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

import dmc.optim
from dmc._mlir import ir
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.mesh import Mesh
from dmc.placement.placement import Placement
from tests.models import build
from tests.partitioned import place, run_on_all_ranks
from tests.placements import all_placements

RATE = 0.1
# h = x w, y = h wᵀ (the same weight again), loss = Σ y², and one step of gradient descent.
TIED = """
func.func @step(%w: tensor<4x4xf32> {dm.name = "w"}, %x: tensor<8x4xf32> {dm.name = "x"})
    -> (tensor<4x4xf32> {dm.name = "w"}, tensor<f32> {dm.name = "loss"}) {
  %zero = arith.constant 0.0 : f32
  %e84 = tensor.empty() : tensor<8x4xf32>
  %z84 = linalg.fill ins(%zero : f32) outs(%e84 : tensor<8x4xf32>) -> tensor<8x4xf32>
  %e44 = tensor.empty() : tensor<4x4xf32>
  %z44 = linalg.fill ins(%zero : f32) outs(%e44 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %e0 = tensor.empty() : tensor<f32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %wt = linalg.transpose ins(%w : tensor<4x4xf32>) outs(%e44 : tensor<4x4xf32>) permutation = [1, 0]
  %h = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x4xf32>) outs(%z84 : tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = linalg.matmul ins(%h, %wt : tensor<8x4xf32>, tensor<4x4xf32>) outs(%z84 : tensor<8x4xf32>) -> tensor<8x4xf32>
  %y2 = arith.mulf %y, %y : tensor<8x4xf32>
  %flat = tensor.collapse_shape %y2 [[0, 1]] : tensor<8x4xf32> into tensor<32xf32>
  %loss = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = ["reduction"]} ins(%flat : tensor<32xf32>) outs(%z0 : tensor<f32>) {
    ^bb0(%a: f32, %sum: f32):
      %r = arith.addf %sum, %a : f32
      linalg.yield %r : f32
  } -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<8x4xf32>
  %dh = linalg.matmul ins(%dy, %w : tensor<8x4xf32>, tensor<4x4xf32>) outs(%z84 : tensor<8x4xf32>) -> tensor<8x4xf32>
  %e48 = tensor.empty() : tensor<4x8xf32>
  %dyt = linalg.transpose ins(%dy : tensor<8x4xf32>) outs(%e48 : tensor<4x8xf32>) permutation = [1, 0]
  %xt = linalg.transpose ins(%x : tensor<8x4xf32>) outs(%e48 : tensor<4x8xf32>) permutation = [1, 0]
  %g1 = linalg.matmul ins(%dyt, %h : tensor<4x8xf32>, tensor<8x4xf32>) outs(%z44 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %g2 = linalg.matmul ins(%xt, %dh : tensor<4x8xf32>, tensor<8x4xf32>) outs(%z44 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = arith.addf %g1, %g2 : tensor<4x4xf32>
  %rate = arith.constant dense<0.1> : tensor<4x4xf32>
  %d = arith.mulf %g, %rate : tensor<4x4xf32>
  %n = arith.subf %w, %d : tensor<4x4xf32>
  return %n, %loss : tensor<4x4xf32>, tensor<f32>
}
"""


@pytest.mark.parametrize("mesh", [Mesh(a=2), Mesh(a=2, b=2)], ids=repr)
def test_a_tied_weight_under_every_placement(context: Any, mesh: Mesh) -> None:
    rng = np.random.default_rng(0)
    w, x = (rng.integers(-3, 4, shape).astype(np.float32) / 8 for shape in ((4, 4), (8, 4)))
    h, y = x @ w, x @ w @ w.T
    gradient = (2 * y).T @ h + x.T @ (2 * y @ w)
    placements = list(all_placements(mesh, 2, kinds=()))
    for of_w, of_x in product(placements, placements):
        module = ir.Module.parse(TIED)
        place(module, mesh, {"w": of_w, "x": of_x})
        (new, loss), _ = run_on_all_ranks(module, mesh, [w, x])
        np.testing.assert_allclose(new, w - RATE * gradient, rtol=1e-5, atol=1e-6, err_msg=f"{of_w} {of_x}")
        np.testing.assert_allclose(loss, (y * y).sum(), rtol=1e-5)


def test_a_tied_gradient_is_reduced_once(context: Any) -> None:
    mesh, rows = Mesh(a=2), Placement([["a"], []])
    module = ir.Module.parse(TIED)
    place(module, mesh, {"x": rows})
    arguments = [np.ones((4, 4), np.float32), np.ones((8, 4), np.float32)]
    _, sent = run_on_all_ranks(module, mesh, arguments)
    # 2T(n-1) for the gradient of 16 elements and for the loss.
    assert sent == 2 * (16 + 1) * 4


ROWS = Placement([["dp"], []])
DATA = {"tokens": ROWS, "targets": ROWS}
# Of each of two micro-batches every rank has a part.
MICRO = Placement([["dp"], []], blocks={"dp": 2})
COLUMN, ROW = Placement([["tp"], []]), Placement([[], ["tp"]])
MEGATRON = {
    "blocks.*.mlp.0.weight": COLUMN,
    "blocks.*.mlp.0.bias": Placement([["tp"]]),
    "blocks.*.mlp.2.weight": ROW,
    "blocks.*.attention.out.weight": ROW,
}
# Mesh, placements, and how many micro-batches.
GPT: dict[str, tuple[Mesh, Mapping[str, Placement], int]] = {
    "dp2": (Mesh(dp=2), DATA, 1),
    "tp2": (Mesh(tp=2), MEGATRON, 1),
    "vocabulary": (Mesh(tp=2), {**MEGATRON, "token.weight": COLUMN}, 1),
    "dp2_tp2": (Mesh(dp=2, tp=2), {**DATA, **MEGATRON}, 1),
    "accumulate": (Mesh(dp=2), {"tokens": MICRO, "targets": MICRO}, 2),
    "optimizer_state": (Mesh(dp=2), {**DATA, "blocks.*.mlp.*.weight.momentum_buffer": Placement([["dp"], []])}, 1),
    "stored_split": (Mesh(dp=2), {**DATA, "blocks.*.mlp.0.weight": ROWS}, 1),
}


@pytest.mark.parametrize("name", GPT)
def test_the_demo_gpt(context: Any, name: str) -> None:
    mesh, placements, accumulate = GPT[name]
    case = build("demo_gpt", 0.0)
    optimizer = dmc.optim.SGD(lr=RATE, momentum=0.9)
    imported = import_step(case.model, case.loss, optimizer, case.example(0), Precision.FP32, accumulate, 0, context)
    batch = case.example(1)
    assert isinstance(batch, tuple)
    state = {name: tensor.numpy().copy() for name, tensor in imported.state.items()}
    arguments = [
        *state.values(),
        np.array([RATE], np.float32),
        np.array(0, np.int32),
        *(each.numpy() for each in batch),
    ]
    place(imported.module, mesh, placements)
    results, _ = run_on_all_ranks(imported.module, mesh, arguments)

    assert case.loss is not None
    loss = case.loss(case.model(batch[0]), batch[1])
    loss.backward()
    named = dict(zip([spec.name for spec in imported.signature.state if spec.mutated], results, strict=False))
    for parameter, tensor in case.model.named_parameters():
        assert tensor.grad is not None
        change = -RATE * tensor.grad.numpy()
        np.testing.assert_allclose(
            named[parameter] - state[parameter],
            change,
            rtol=0,
            atol=1e-4 * np.abs(change).max() + 1e-7,
            err_msg=parameter,
        )
    np.testing.assert_allclose(results[len(named)], loss.item(), rtol=1e-5)
