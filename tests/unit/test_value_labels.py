"""What values are to the user: read from the ends of the step and from what its optimizer updates take."""

from __future__ import annotations

from typing import Any

from dmc._mlir import ir
from dmc.analysis.labels.values import value_labels
from dmc.dialect.labels import Label
from dmc.step_function import find_step

UPDATE = """kind = "optimizer_update_sgd", decomposition = @sgd, parameters = {}}
      : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>"""
# The gradient of w is a product, transposed, summed over rounds and scaled.
STEP = f"""
#id = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
func.func private @sgd(%p: tensor<4x2xf32>, %g: tensor<4x2xf32>) -> tensor<4x2xf32> {{ return %g : tensor<4x2xf32> }}
func.func @step(%w: tensor<4x2xf32> {{dm.name = "w", dm.role = "parameter"}},
                %v: tensor<4x2xf32> {{dm.name = "v", dm.role = "parameter"}},
                %x: tensor<2x4xf32> {{dm.name = "x", dm.role = "batch"}})
    -> (tensor<4x2xf32> {{dm.name = "w"}}, tensor<4x2xf32> {{dm.name = "v"}}, tensor<4xf32> {{dm.name = "loss"}}) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %none = arith.constant dense<0.0> : tensor<4x2xf32>
  %clip = arith.constant dense<0.5> : tensor<f32>
  %e = tensor.empty() : tensor<4x2xf32>
  %sum = scf.for %i = %zero to %two step %one iter_args(%before = %none) -> tensor<4x2xf32> {{
    %product = arith.mulf %x, %x : tensor<2x4xf32>
    %t = linalg.transpose ins(%product : tensor<2x4xf32>) outs(%e : tensor<4x2xf32>) permutation = [1, 0]
    %after = arith.addf %before, %t : tensor<4x2xf32>
    scf.yield %after : tensor<4x2xf32>
  }}
  %scaled = linalg.generic
      {{indexing_maps = [#id, affine_map<(i, j) -> ()>, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%sum, %clip : tensor<4x2xf32>, tensor<f32>) outs(%e : tensor<4x2xf32>) {{
    ^bb0(%a: f32, %c: f32, %o: f32):
      %m = arith.mulf %a, %c : f32
      linalg.yield %m : f32
  }} -> tensor<4x2xf32>
  %nw = "dm.composite"(%w, %scaled) {{{UPDATE}
  %shared = arith.addf %v, %v : tensor<4x2xf32>
  %gv = arith.addf %shared, %none : tensor<4x2xf32>
  %nv = "dm.composite"(%v, %gv) {{{UPDATE}
  %e4 = tensor.empty() : tensor<4xf32>
  %loss = linalg.generic {{indexing_maps = [#id, #rows], iterator_types = ["parallel", "reduction"]}}
      ins(%shared : tensor<4x2xf32>) outs(%e4 : tensor<4xf32>) {{
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
  }} -> tensor<4xf32>
  return %nw, %nv, %loss : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4xf32>
}}
"""


def _maker(value: ir.Value) -> str:
    return "argument" if isinstance(value.owner, ir.Block) else value.owner.name


def test_values_of_a_step(context: Any) -> None:
    module = ir.Module.parse(STEP)
    w, gradient = Label("w"), Label("gradient of w")
    labels = {(_maker(value), label) for value, label in value_labels(find_step(module)).items()}
    assert labels == {
        *(("argument", w), ("argument", Label("v")), ("argument", Label("x"))),
        *(("dm.composite", w), ("dm.composite", Label("v"))),
        *((maker, gradient) for maker in ("linalg.generic", "scf.for", "linalg.transpose", "arith.mulf", "arith.addf")),
        ("arith.addf", Label("gradient of v")),
    }
    # The update of v takes what is not v + v itself: the loss reads that, too.
    assert sum(label == Label("gradient of v") for label in value_labels(find_step(module)).values()) == 1


def test_a_buffer_has_no_gradient(context: Any) -> None:
    module = ir.Module.parse(STEP.replace("optimizer_update_sgd", "optimizer_update_keep"))
    assert {label.tensor for label in value_labels(find_step(module)).values()} == {"w", "v", "x"}
