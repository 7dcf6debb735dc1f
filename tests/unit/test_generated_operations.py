"""What operations mean in generated kernels: arithmetic and movements."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from dmc.kernels.generated import generate
from tests.generated_regions import assert_right, region, regions_of, sample
from tests.nonfinite import SPECIAL
from tests.triton_interpreter import interpret


def each(inputs: str, lines: str, results: str, shape: str = "6x7") -> Any:
    """A region that computes element by element: `lines` compute `%r0, …` of `%a0, …`."""
    given, made = inputs.split(), results.split()
    dims = [f"d{i}" for i in range(shape.count("x") + 1)]
    same = f"affine_map<({', '.join(dims)}) -> ({', '.join(dims)})>"
    tensors = [f"tensor<{shape}x{dtype}>" for dtype in (*given, *made)]
    maps = ", ".join([same] * len(tensors))
    arguments = ", ".join(f"%x{i}: {tensor}" for i, tensor in enumerate(tensors[: len(given)]))
    empty = "\n".join(f"%e{i} = tensor.empty() : {tensor}" for i, tensor in enumerate(tensors[len(given) :]))
    outs = ", ".join(f"%e{i}" for i in range(len(made)))
    blocks = [f"%a{i}: {dtype}" for i, dtype in enumerate(given)] + [f"%o{i}: {dtype}" for i, dtype in enumerate(made)]
    names = ", ".join(f"%r{i}" for i in range(len(made)))
    operands = ", ".join(f"%x{i}" for i in range(len(given)))
    kinds = ", ".join(['"parallel"'] * len(dims))
    kept = ", ".join(f"%0#{i}" if len(made) > 1 else "%0" for i in range(len(made)))
    types = ", ".join(tensors[len(given) :])
    return region(f"""({arguments}) -> ({types}) {{
      {empty}
      %0{f":{len(made)}" if len(made) > 1 else ""} = linalg.generic {{indexing_maps = [{maps}],
          iterator_types = [{kinds}]}}
          ins({operands} : {", ".join(tensors[: len(given)])}) outs({outs} : {types}) {{
      ^bb0({", ".join(blocks)}):
        {lines}
        linalg.yield {names} : {", ".join(made)}
      }} -> ({types})
      return {kept} : {types}
    }}""")


PREDICATES = "oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno".split()


def test_comparisons_of_what_may_be_no_number(context: Any) -> None:
    lines = "\n".join(f"%r{i} = arith.cmpf {name}, %a0, %a1 : f32" for i, name in enumerate(PREDICATES))
    assert_right(each("f32 f32", lines, " ".join(["i1"] * len(PREDICATES)), "20x20"), special=True)


def test_extremes_of_what_may_be_no_number(context: Any) -> None:
    names = ("maximumf", "minimumf", "maxnumf", "minnumf")
    lines = "\n".join(f"%r{i} = arith.{name} %a0, %a1 : f32" for i, name in enumerate(names))
    assert_right(each("f32 f32", lines, "f32 f32 f32 f32", "20x20"), special=True)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_numbers_are_rounded_after_each_operation(context: Any, dtype: str) -> None:
    lines = f"""%s = arith.addf %a0, %a1 : {dtype}
        %d = arith.subf %s, %a1 : {dtype}
        %w = arith.extf %d : {dtype} to f32
        %r0 = arith.mulf %w, %w : f32
        %r1 = arith.divf %a0, %a1 : {dtype}"""
    module = each(f"{dtype} {dtype}", lines, f"f32 {dtype}", "30x30")
    generated = generate(regions_of(module)["region"])
    x, y = sample(generated.problem.operands, 0)
    square, ratio = interpret(generated.problem, generated.recipes[0], (x, y))
    assert torch.equal(square, ((x + y) - y).float() ** 2)
    assert torch.equal(ratio, x / y)


def test_integers_in_every_way(context: Any) -> None:
    lines = """%c3 = arith.constant 3 : i64
        %c5 = arith.constant 5 : i64
        %mask = arith.constant 4294967295 : i64
        %factor = arith.constant 3528531795 : i64
        %c32 = arith.constant 32 : i64
        %low = arith.andi %a0, %mask : i64
        %wide = arith.muli %low, %factor : i64
        %high = arith.shrsi %wide, %c32 : i64
        %kept = arith.andi %high, %mask : i64
        %r0 = arith.xori %kept, %a1 : i64
        %r1 = arith.subi %a1, %a0 : i64
        %r2 = arith.divsi %r1, %c3 : i64
        %r3 = arith.remsi %r1, %c5 : i64
        %small = arith.trunci %wide : i64 to i32
        %back = arith.extsi %small : i32 to i64
        %r4 = arith.maxsi %back, %c3 : i64
        %less = arith.cmpi slt, %back, %a1 : i64
        %r5 = arith.select %less, %a0, %back : i64
        %r6 = arith.cmpi ult, %r1, %c3 : i64
        %r7 = arith.uitofp %less : i1 to f32
        %r8 = math.absi %r1 : i64
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %n = arith.addi %i, %j : index
        %k = arith.index_cast %n : index to i64
        %r9 = arith.remsi %k, %c5 : i64"""
    for limit in (8, 2**62):
        assert_right(each("i64 i64", lines, "i64 i64 i64 i64 i64 i64 i1 f32 i64 i64", "9x5"), limit=limit)


def test_what_sizes_decide_costs_nothing(context: Any) -> None:
    lines = """%i = linalg.index 0 : index
        %k = arith.index_cast %i : index to i64
        %none = arith.constant 0 : i64
        %last = arith.constant 5 : i64
        %negative = arith.cmpi slt, %k, %none : i64
        %other = arith.addi %k, %last : i64
        %place = arith.select %negative, %other, %k : i64
        %least = arith.maxsi %place, %none : i64
        %most = arith.minsi %least, %last : i64
        %inside = arith.cmpi sle, %most, %last : i64
        %r0 = arith.select %inside, %most, %a0 : i64"""
    generated = assert_right(each("i64", lines, "i64"))
    source = generated.recipes[0].calls[0].source
    assert not any(word in source for word in ("where", "maximum", "minimum", "<=")), source


def test_a_shift_by_more_bits_than_a_number_is_held_in(context: Any) -> None:
    # Compiled, such a shift gives anything; Triton's interpreter gives the right number all the same.
    lines = """%c32 = arith.constant 32 : i64
        %c15 = arith.constant 15 : i64
        %some = arith.andi %a0, %c15 : i64
        %r0 = arith.shrsi %some, %c32 : i64
        %cut = arith.trunci %a0 : i64 to i32
        %signed = arith.extsi %cut : i32 to i64
        %r1 = arith.shrsi %signed, %c32 : i64"""
    source = assert_right(each("i64", lines, "i64 i64")).recipes[0].calls[0].source
    (shifted,) = re.findall(r"(\w+) >> \(32\)", source)
    assert shifted.endswith("_i64"), source


FUNCTIONS = "exp expm1 log log1p tanh erf sqrt rsqrt sin cos floor ceil absf exp2 log2".split()


def test_functions(context: Any) -> None:
    lines = "\n".join(f"%r{i} = math.{name} %a0 : f32" for i, name in enumerate(FUNCTIONS))
    assert_right(each("f32", lines, " ".join(["f32"] * len(FUNCTIONS)), "40x40"), special=True)


@pytest.mark.parametrize(
    ("name", "ends"), [("exp", (-110, 100)), ("expm1", (-20, 100)), ("log1p", (-1, 50)), ("tanh", (-12, 12))]
)
def test_functions_are_accurate(context: Any, name: str, ends: tuple[int, int]) -> None:
    module = each("f32", f"%r0 = math.{name} %a0 : f32", "f32", "40x50")
    generated = generate(regions_of(module)["region"])
    x = torch.cat([torch.linspace(*ends, 1000), torch.linspace(-1e-3, 1e-3, 1000)]).reshape(40, 50)
    (made,) = interpret(generated.problem, generated.recipes[0], (x,))
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.double().numpy())
        wanted = exact.astype(np.float32)
    finite = np.isfinite(wanted)
    assert np.array_equal(made.numpy()[~finite], wanted[~finite], equal_nan=True)
    spacing = np.spacing(np.maximum(np.abs(wanted[finite]), np.finfo(np.float32).tiny))
    assert np.all(np.abs(made.numpy()[finite] - exact[finite]) <= 4 * spacing)


@pytest.mark.parametrize("call", ["math.exp %a0", "math.expm1 %a0", "math.powf %a0, %a0"])
def test_functions_of_f64_have_its_range(context: Any, call: str) -> None:
    """A model may compute in f64 what f32 cannot hold."""
    module = each("f64", f"%r0 = {call} : f64", "f64", "5x30")
    generated = generate(regions_of(module)["region"])
    x = torch.cat([torch.linspace(-120.0, -1e-3, 75), torch.linspace(1e-3, 120.0, 75)]).double().reshape(5, 30)
    x = x.abs() if "powf" in call else x
    (made,) = interpret(generated.problem, generated.recipes[0], (x,))
    wanted = {"math.exp": x.exp(), "math.expm1": x.expm1(), "math.powf": x**x}[call.split(maxsplit=1)[0]]
    torch.testing.assert_close(made, wanted, rtol=1e-6, atol=0.0)


def test_exponentials_at_the_ends(context: Any) -> None:
    module = each("f32", "%r0 = math.exp %a0 : f32", "f32", "5x30")
    generated = generate(regions_of(module)["region"])
    limits = np.array([88.7228, 88.73, -87.3, 104.0, -150.0], np.float32)[:, None]
    x = limits + np.arange(-15, 15, dtype=np.float32) * np.spacing(limits)
    (made,) = interpret(generated.problem, generated.recipes[0], (torch.from_numpy(x),))
    wanted = np.exp(x.astype(np.float64))
    torch.testing.assert_close(
        made.double().numpy(), np.where(wanted > np.finfo(np.float32).max, np.inf, wanted), rtol=5e-7, atol=2e-45
    )


def test_powers(context: Any) -> None:
    module = each("f32 f32", "%r0 = math.powf %a0, %a1 : f32", "f32", "9x9")
    generated = generate(regions_of(module)["region"])
    values = torch.tensor([-np.inf, -2.5, -1.0, -0.0, 0.0, 0.3, 1.0, np.inf, np.nan])
    x, y = torch.meshgrid(
        values, torch.tensor([-np.inf, -3.0, -0.5, 0.0, 2.0, 3.0, 7.5, np.inf, np.nan]), indexing="ij"
    )
    (made,) = interpret(generated.problem, generated.recipes[0], (x.contiguous(), y.contiguous()))
    torch.testing.assert_close(made, torch.pow(x, y), equal_nan=True, rtol=1e-6, atol=0.0)


def test_what_division_leaves_is_exact(context: Any) -> None:
    size = len(SPECIAL)
    module = each("f32 f32", "%r0 = arith.remf %a0, %a1 : f32", "f32", f"{size}x{size}")
    generated = generate(regions_of(module)["region"])
    values = torch.tensor(SPECIAL)
    x, y = (each.contiguous() for each in torch.meshgrid(values, values, indexing="ij"))
    (made,) = interpret(generated.problem, generated.recipes[0], (x, y))
    # Where a quotient exceeds f32, eager's vectors in f32 give NaN.
    wanted = torch.fmod(x.double(), y.double()).float()
    torch.testing.assert_close(made, wanted, equal_nan=True, rtol=0.0, atol=0.0)


def test_rows_backwards_of_what_is_counted(context: Any) -> None:
    # Place 9 · i + 8 - j, modulo 5, where sizes allow to take multiples of 5 away before.
    module = region("""(%x: tensor<20x9xf32>) -> tensor<20x9xf32> {
      %five = arith.constant 5 : index
      %last = arith.constant 8 : index
      %flat = tensor.empty() : tensor<180xf32>
      %counted = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          outs(%flat : tensor<180xf32>) {
      ^bb0(%o: f32):
        %i = linalg.index 0 : index
        %rest = arith.remsi %i, %five : index
        %wide = arith.index_cast %rest : index to i64
        %number = arith.sitofp %wide : i64 to f32
        linalg.yield %number : f32
      } -> tensor<180xf32>
      %rows = tensor.expand_shape %counted [[0, 1]] output_shape [20, 9] : tensor<180xf32> into tensor<20x9xf32>
      %e = tensor.empty() : tensor<20x9xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%x : tensor<20x9xf32>) outs(%e : tensor<20x9xf32>) {
      ^bb0(%a: f32, %o: f32):
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %k = arith.subi %last, %j : index
        %weight = tensor.extract %rows[%i, %k] : tensor<20x9xf32>
        %r = arith.mulf %a, %weight : f32
        linalg.yield %r : f32
      } -> tensor<20x9xf32>
      return %0 : tensor<20x9xf32>
    }""")
    assert_right(module)


MOVEMENTS = {
    "slices": """(%x: tensor<5x9x8xf32>) -> tensor<3x4xf32> {
        %0 = tensor.extract_slice %x[1, 2, 3] [3, 4, 1] [1, 2, 1] : tensor<5x9x8xf32> to tensor<3x4xf32>
        return %0 : tensor<3x4xf32> }""",
    "inserted": """(%x: tensor<4x3xf32>, %y: tensor<9x5xf32>) -> tensor<9x5xf32> {
        %0 = tensor.insert_slice %x into %y[1, 2] [4, 3] [2, 1] : tensor<4x3xf32> into tensor<9x5xf32>
        return %0 : tensor<9x5xf32> }""",
    "padded": """(%x: tensor<4x6xf32>) -> tensor<7x5xf32> {
        %c = arith.constant 2.5 : f32
        %0 = tensor.pad %x low[1, 0] high[2, -1] {
        ^bb0(%i: index, %j: index):
          tensor.yield %c : f32
        } : tensor<4x6xf32> to tensor<7x5xf32>
        return %0 : tensor<7x5xf32> }""",
    "joined": """(%x: tensor<2x3xi64>, %y: tensor<2x1xi64>, %z: tensor<2x40xi64>) -> tensor<88xi64> {
        %0 = tensor.concat dim(1) %x, %y, %z : (tensor<2x3xi64>, tensor<2x1xi64>, tensor<2x40xi64>) -> tensor<2x44xi64>
        %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<2x44xi64> into tensor<88xi64>
        return %1 : tensor<88xi64> }""",
    "turned": """(%x: tensor<3x70x40xbf16>) -> tensor<40x3x70xbf16> {
        %e = tensor.empty() : tensor<40x3x70xbf16>
        %0 = linalg.transpose ins(%x : tensor<3x70x40xbf16>) outs(%e : tensor<40x3x70xbf16>) permutation = [2, 0, 1]
        return %0 : tensor<40x3x70xbf16> }""",
    "broadcast": """(%x: tensor<7xf32>) -> tensor<7x4xf32> {
        %e = tensor.empty() : tensor<7x4xf32>
        %0 = linalg.broadcast ins(%x : tensor<7xf32>) outs(%e : tensor<7x4xf32>) dimensions = [1]
        return %0 : tensor<7x4xf32> }""",
    "constants": """(%x: tensor<i64>) -> (tensor<2x3xi64>, tensor<2xi64>) {
        %0 = arith.constant dense<[[1, 2, 3], [4, 5, 600000000000]]> : tensor<2x3xi64>
        %s = tensor.extract %x[] : tensor<i64>
        %1 = tensor.from_elements %s, %s : tensor<2xi64>
        return %0, %1 : tensor<2x3xi64>, tensor<2xi64> }""",
}


@pytest.mark.parametrize("name", MOVEMENTS)
def test_movements(context: Any, name: str) -> None:
    generated = assert_right(region(MOVEMENTS[name]))
    source = generated.recipes[0].calls[0].source
    assert ("across" in source) == (name == "turned")
    if name in ("inserted", "padded", "joined"):
        lines = [line for line in source.splitlines() if "tl.load(x0_at" in line]
        assert lines and all(" inside" in line for line in lines), "what lies outside is not read"
