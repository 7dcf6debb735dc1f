"""The hyperbolic tangent and the error function of generated kernels: beside 1, as in GELU, and anywhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dmc.kernels.generated import generate
from tests.generated_regions import assert_right, region, regions_of, sample
from tests.triton_interpreter import interpret

HEAD = """(%x: tensor<4096xf32>, %one: tensor<f32>) -> tensor<4096xf32> {
  %c1 = arith.constant 1.0 : f32
  %c2 = arith.constant 2.0 : f32
  %ones = arith.constant dense<1.0> : tensor<f32>
  %e = tensor.empty() : tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>,
      affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %ones, %one : tensor<4096xf32>, tensor<f32>, tensor<f32>) outs(%e : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32, %read: f32, %o: f32):
    %t = math.tanh %a : f32
"""
TAIL = """
    linalg.yield %r : f32
  } -> tensor<4096xf32>
  return %y : tensor<4096xf32>
}"""
GELU = "%r = arith.addf %t, %c1 : f32"
SLOPE = """%s = arith.mulf %t, %t : f32
    %d = arith.subf %b, %s : f32
    %u = arith.addf %c1, %t : f32
    %r = arith.mulf %d, %u : f32"""


@pytest.mark.parametrize(
    ("body", "is_beside_one"),
    [
        (GELU, True),
        (SLOPE, True),
        ("%r = arith.addf %t, %c2 : f32", False),
        ("%r = arith.addf %t, %read : f32", False),
        ("%r = arith.subf %t, %c1 : f32", False),
        ("%s = arith.mulf %t, %t : f32\n%r = arith.subf %s, %c1 : f32", False),
        ("%s = arith.mulf %t, %a : f32\n%r = arith.subf %c1, %s : f32", False),
        ("%s = arith.addf %t, %c1 : f32\n%r = arith.mulf %s, %t : f32", False),
    ],
)
def test_its_relative_error_may_be_large_where_only_the_absolute_counts(
    context: Any, body: str, is_beside_one: bool
) -> None:
    module = region(HEAD + body + TAIL)
    source = generate(regions_of(module)["region"]).recipes[0].calls[0].source
    assert ("functions.tanh_beside_one(" in source) == is_beside_one
    assert ("functions.tanh(" in source) != is_beside_one


@pytest.mark.parametrize("body", [GELU, SLOPE])
def test_beside_one_it_is_exact_to_f32(context: Any, body: str) -> None:
    module = region(HEAD + body + TAIL)
    assert_right(module, every=False, special=True)
    generated = generate(regions_of(module)["region"])
    numbers, one = sample(generated.problem.operands, 0)
    (made,) = interpret(generated.problem, generated.recipes[0], (numbers * 5, one))
    exact = np.tanh(numbers.double().numpy() * 5)
    wanted = 1 + exact if body == GELU else (1 - exact**2) * (1 + exact)
    assert np.abs(made.double().numpy() - wanted).max() < 1e-6


def test_the_error_function_beside_one(context: Any) -> None:
    module = region((HEAD + GELU + TAIL).replace("math.tanh", "math.erf"))
    assert_right(module, every=False, special=True)
    generated = generate(regions_of(module)["region"])
    assert "functions.erf_beside_one(" in generated.recipes[0].calls[0].source
    numbers, one = sample(generated.problem.operands, 0)
    for width in (0.1, 1.0, 3.0, 100.0):
        (made,) = interpret(generated.problem, generated.recipes[0], (numbers * width, one))
        assert (made.double() - 1 - torch.erf((numbers * width).double())).abs().max() < 2.5e-7


def test_the_error_function_anywhere_else(context: Any) -> None:
    module = region((HEAD + "%r = arith.addf %t, %c2 : f32" + TAIL).replace("math.tanh", "math.erf"))
    assert "tl.erf(" in generate(regions_of(module)["region"]).recipes[0].calls[0].source
