"""Functions of generated kernels that need fewer instructions where they are combined with 1, and anywhere else."""

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
        ("%r = arith.mulf %t, %t : f32", False),
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


SHARE = """%u = arith.addf %t, %b : f32
    %half = arith.constant 0.5 : f32
    %r = arith.mulf %u, %half : f32"""
DENSITY = """%u = arith.addf %t, %c1 : f32
    %half = arith.constant 0.5 : f32
    %s = arith.mulf %half, %u : f32
    %factor = arith.constant -0.5 : f32
    %square = arith.mulf %a, %a : f32
    %power = arith.mulf %square, %factor : f32
    %exp = math.exp %power : f32
    %f = arith.mulf %exp, %c2 : f32
    %g = arith.mulf %a, %f : f32
    %r = arith.addf %s, %g : f32"""
LOGISTIC = """%minus = arith.negf %a : f32
    %exp = math.exp %minus : f32
    %u = arith.addf %exp, %c1 : f32
    %l = arith.divf %c1, %u : f32
    %r = arith.mulf %l, %a : f32"""


def _source(body: str, function: str = "tanh") -> str:
    module = region((HEAD + body + TAIL).replace("math.tanh", f"math.{function}"))
    return generate(regions_of(module)["region"]).recipes[0].calls[0].source


@pytest.mark.parametrize("function", ["tanh", "erf"])
@pytest.mark.parametrize(
    ("body", "is_share"),
    [
        (SHARE, True),
        (SHARE.replace("%u, %half", "%half, %u"), True),
        (SHARE.replace("0.5", "0.25"), False),
        (SHARE.replace("%t, %b", "%t, %read"), False),
        # Something else reads the function.
        (SHARE.replace("%r =", "%v =") + "\n%r = arith.mulf %v, %t : f32", False),
    ],
)
def test_half_of_a_function_and_one(context: Any, function: str, body: str, is_share: bool) -> None:
    name = {"tanh": "share_by_power", "erf": "share_by_erf"}[function]
    assert (f"functions.{name}(" in _source(body, function)) == is_share


@pytest.mark.parametrize("function", ["tanh", "erf"])
def test_half_of_a_function_and_one_is_exact_to_f32(context: Any, function: str) -> None:
    module = region((HEAD + SHARE + TAIL).replace("math.tanh", f"math.{function}"))
    assert_right(module, every=False, special=True)
    generated = generate(regions_of(module)["region"])
    numbers, one = sample(generated.problem.operands, 0)
    for width in (0.1, 1.0, 3.0, 100.0):
        (made,) = interpret(generated.problem, generated.recipes[0], (numbers * width, one))
        exact = getattr(torch, function)((numbers * width).double())
        assert (made.double() - 0.5 * (1 + exact)).abs().max() < 1.5e-7


@pytest.mark.parametrize(
    ("body", "is_beside_share"),
    [
        (DENSITY, True),
        (DENSITY.replace("%square, %factor", "%factor, %square"), True),
        # It may be large, or is alone, or is not of a square.
        (DENSITY.replace("-0.5", "0.5"), False),
        (DENSITY.replace("%s, %g", "%c1, %g"), False),
        (DENSITY.replace("%r =", "%v =") + "\n%r = arith.mulf %v, %exp : f32", False),
        (DENSITY.replace("%a, %a : f32", "%a, %read : f32"), False),
        # What it is multiplied with may be large.
        (DENSITY.replace("%a, %f : f32", "%read, %f : f32"), False),
    ],
)
def test_a_density_beside_a_share(context: Any, body: str, is_beside_share: bool) -> None:
    source = _source(body, "erf")
    assert ("tl.exp2(" in source) == is_beside_share
    assert ("functions.exp(" in source) != is_beside_share


def test_a_density_beside_a_share_is_exact_to_f32(context: Any) -> None:
    module = region((HEAD + DENSITY + TAIL).replace("math.tanh", "math.erf"))
    assert_right(module, every=False, special=True)
    generated = generate(regions_of(module)["region"])
    numbers, one = sample(generated.problem.operands, 0)
    for width in (0.1, 1.0, 3.0, 100.0):
        x = (numbers * width).double()
        (made,) = interpret(generated.problem, generated.recipes[0], (numbers * width, one))
        exact = 0.5 * (1 + torch.erf(x)) + 2 * x * torch.exp(-0.5 * x * x)
        assert (made.double() - exact).abs().max() < 5e-7


@pytest.mark.parametrize(
    ("body", "is_inverse"),
    [
        (LOGISTIC, True),
        (LOGISTIC.replace("%c1, %u", "%c2, %u"), False),
        (LOGISTIC.replace("%c1, %u", "%u, %c1"), False),
        # What is divided by may be 0, or too small for an approximation.
        (LOGISTIC.replace("%exp, %c1", "%a, %c1"), False),
        (LOGISTIC.replace("%exp, %c1", "%exp, %c2"), False),
        # The logarithm of a number too small for an approximation.
        (LOGISTIC.replace("arith.mulf %l, %a", "math.log %l"), False),
    ],
)
def test_the_inverse_in_a_logistic_function(context: Any, body: str, is_inverse: bool) -> None:
    module = region(HEAD + body + TAIL)
    assert_right(module, every=False, special=True)
    assert ("functions.inverse(" in _source(body)) == is_inverse


CUBIC = """%factor = arith.constant 0.25 : f32
    %square = arith.mulf %a, %a : f32
    %most = arith.mulf %square, %factor : f32
    %sum = arith.addf %most, %c2 : f32
    %argument = arith.mulf %a, %sum : f32
    %t = math.tanh %argument : f32
    """


def _of_a_share(argument: str) -> tuple[str, Any]:
    """The source of a share of tanh of a value, and the region."""
    module = region(HEAD.replace("    %t = math.tanh %a : f32\n", argument) + SHARE + TAIL)
    return generate(regions_of(module)["region"]).recipes[0].calls[0].source, module


@pytest.mark.parametrize("is_wide", [False, True])
def test_the_coefficients_of_a_polynomial_take_up_a_factor(context: Any, is_wide: bool) -> None:
    constant = "%factor = arith.constant 0.25 : f32"
    wide = "%wide = arith.constant 0.25 : f64\n%factor = arith.truncf %wide : f64 to f32"
    source, module = _of_a_share(CUBIC.replace(constant, wide) if is_wide else CUBIC)
    # -2 log₂ e · 0.25, and · 2.
    assert "* -0.721347520444481" in source and "+ -5.77078016355585" in source and "* -2.885" not in source
    assert_right(module, every=False, special=True)
    generated = generate(regions_of(module)["region"])
    numbers, one = sample(generated.problem.operands, 0)
    (made,) = interpret(generated.problem, generated.recipes[0], (numbers * 3, one))
    x = numbers.double() * 3
    assert (made.double() - 0.5 * (1 + torch.tanh(x * (0.25 * x * x + 2)))).abs().max() < 3e-7


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # What is summed may cancel, or what it is rounded to matters, or it may be infinite times the factor.
        ("0.25", "-0.25"),
        ("%square, %factor", "%a, %factor"),
        ("%square, %factor", "%square, %read"),
        ("0.25", "2.0e38"),
        ("%sum = arith.addf %most, %c2", "%large = arith.constant 2.0e38 : f32\n%sum = arith.addf %most, %large"),
    ],
)
def test_others_are_multiplied(context: Any, old: str, new: str) -> None:
    source, module = _of_a_share(CUBIC.replace(old, new))
    assert "* -2.88539008177792" in source
    assert_right(module, every=False, special=True)


WITHOUT_SQUARE = """%rest = arith.subf %c1, {0} : f32
    %p = arith.mulf {1} : f32
    %r = arith.mulf %p, %a : f32"""


@pytest.mark.parametrize("share", [SHARE.replace("%r =", "%s ="), LOGISTIC.replace("%l", "%s").replace("%r", "%v")])
@pytest.mark.parametrize(
    ("operands", "rest", "is_one"),
    [("%s, %rest", "%s", True), ("%rest, %s", "%s", True), ("%s, %rest", "%a", False), ("%a, %rest", "%s", False)],
)
def test_a_share_without_its_square(context: Any, share: str, operands: str, rest: str, is_one: bool) -> None:
    body = f"{share}\n{WITHOUT_SQUARE.format(rest, operands)}"
    assert ("functions.without_square(" in _source(body)) == is_one
    assert_right(region(HEAD + body + TAIL), every=False, special=True)


def test_only_of_a_number_from_zero_to_one(context: Any) -> None:
    body = WITHOUT_SQUARE.format("%t", "%t, %rest")
    assert "functions.without_square(" not in _source(body)


def test_what_a_reduction_begins_with_is_no_constant(context: Any) -> None:
    """A sum that begins with one is not beside one."""
    module = region("""(%x: tensor<64x32xf32>) -> tensor<64xf32> {
      %ones = arith.constant dense<1.0> : tensor<64xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
          iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x32xf32>) outs(%ones : tensor<64xf32>) {
      ^bb0(%a: f32, %o: f32):
        %t = math.tanh %a : f32
        %s = arith.addf %t, %o : f32
        linalg.yield %s : f32
      } -> tensor<64xf32>
      return %y : tensor<64xf32>
    }""")
    assert_right(module, every=False)
    assert "functions.tanh(" in generate(regions_of(module)["region"]).recipes[0].calls[0].source
