"""Kernel bodies in numpy: known answers, element types, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmc._mlir import ir
from dmc.dtypes import Array
from dmc.errors import DmcError
from dmc.interpreter.bodies import kernels_of

BF16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(0)
A, B = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (4, 5)))
MAPS = (
    "#v = affine_map<(d0, d1) -> (d0, d1)>\n#r = affine_map<(d0, d1) -> (d0)>\n#p = affine_map<(d0, d1) -> (d0, 0)>\n"
)


def call(body: str, types: str, *operands: Array, beside: str = "") -> list[Array]:
    """The results of a function on `%0`, `%1` … of these types: `(tensor<4xf32>) -> tensor<4xf32>`."""
    inputs, _, results = types.partition(" -> ")
    each = re.findall(r"tensor<[^>]*>", inputs)
    arguments = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(each))
    text = f"{MAPS}{beside}\nfunc.func private @f({arguments}) -> {results} {{\n{body}\n}}"
    return kernels_of(ir.Module.parse(text))["f"](list(operands))


def reduce(element: str, shape: str, body: str, fill: str) -> str:
    """A `linalg.generic` that reduces the second dimension of `%0`; `body` yields from `%a` and the output `%b`."""
    rows, _, _ = shape.partition("x")
    return f"""
      %fill = arith.constant dense<{fill}> : tensor<{rows}x{element}>
      %r = linalg.generic {{indexing_maps = [#v, #r], iterator_types = ["parallel", "reduction"]}}
        ins(%0 : tensor<{shape}x{element}>) outs(%fill : tensor<{rows}x{element}>) {{
      ^bb0(%a: {element}, %b: {element}):
        {body}
      }} -> tensor<{rows}x{element}>
      return %r : tensor<{rows}x{element}>"""


def product(a: str, b: str, c: str, op: str = "linalg.matmul") -> tuple[str, str]:
    """A product of matrices on top of zeros."""
    *_, element = c.split("x")
    body = f"""
      %zero = arith.constant 0.0 : {element}
      %empty = tensor.empty() : tensor<{c}>
      %c = linalg.fill ins(%zero : {element}) outs(%empty : tensor<{c}>) -> tensor<{c}>
      %r = {op} ins(%0, %1 : tensor<{a}>, tensor<{b}>) outs(%c : tensor<{c}>) -> tensor<{c}>
      return %r : tensor<{c}>"""
    return body, f"(tensor<{a}>, tensor<{b}>) -> tensor<{c}>"


def test_products(context: Any) -> None:
    (result,) = call(*product("3x4xf32", "4x5xf32", "3x5xf32"), A, B)
    np.testing.assert_allclose(result, A @ B, rtol=1e-6)
    left, right = np.stack([A, -A]), np.stack([B, 2 * B])
    (result,) = call(*product("2x3x4xf32", "2x4x5xf32", "2x3x5xf32", "linalg.batch_matmul"), left, right)
    np.testing.assert_allclose(result, left @ right, rtol=1e-6)


def test_narrow_products_add_up_in_f32(context: Any) -> None:
    # In bf16, 256 and 1 would give 256 each time.
    a, b = np.array([[256, 1, 1]], BF16), np.ones((3, 1), BF16)
    (result,) = call(*product("1x3xbf16", "3x1xbf16", "1x1xf32"), a, b)
    assert (result.dtype, result.tolist()) == (np.float32, [[258]])
    (result,) = call(*product("1x3xbf16", "3x1xbf16", "1x1xbf16"), a, b)
    assert (result.dtype, result.tolist()) == (BF16, [[258]])


def test_convolution(context: Any) -> None:
    image = RANDOM.standard_normal((2, 3, 7, 7)).astype(np.float32)
    weight = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
    op = "linalg.conv_2d_nchw_fchw {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}"
    (result,) = call(*product("2x3x7x7xf32", "4x3x3x3xf32", "2x4x3x3xf32", op), image, weight)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_allclose(result, np.einsum("nchwij,fcij->nfhw", windows, weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("product", "wanted"),
    [
        (
            "%n = arith.truncf %b : f32 to bf16\n%w = arith.extf %n : bf16 to f32\n%p = arith.mulf %a, %w : f32",
            257 * 256,
        ),
        ("%p = arith.mulf %b, %b : f32", 257 * 257),
        ("%p = arith.mulf %a, %b : f32", 257 * 257),
    ],
)
def test_a_contraction_is_of_two_operands_as_they_are(context: Any, product: str, wanted: int) -> None:
    body = f"""
      %fill = arith.constant dense<1.0> : tensor<1xf32>
      %r = linalg.generic {{indexing_maps = [#v, #v, #r], iterator_types = ["parallel", "reduction"]}}
        ins(%0, %1 : tensor<1x4xf32>, tensor<1x4xf32>) outs(%fill : tensor<1xf32>) {{
      ^bb0(%a: f32, %b: f32, %c: f32):
        {product}
        %s = arith.addf %c, %p : f32
        linalg.yield %s : f32
      }} -> tensor<1xf32>
      return %r : tensor<1xf32>"""
    x = np.full((1, 4), 257, np.float32)
    assert call(body, "(tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1xf32>", x, x)[0].tolist() == [1 + 4 * wanted]


@pytest.mark.parametrize(
    ("op", "fill", "wanted"),
    [
        ("addf", "1.0", A.sum(1) + 1),
        ("mulf", "2.0", A.prod(1) * 2),
        ("maximumf", "0.5", np.maximum(A.max(1), 0.5)),
        ("minimumf", "-0.5", np.minimum(A.min(1), -0.5)),
    ],
)
def test_reductions(context: Any, op: str, fill: str, wanted: Array) -> None:
    body = reduce("f32", "3x4", f"%s = arith.{op} %b, %a : f32\n linalg.yield %s : f32", fill)
    (result,) = call(body, "(tensor<3x4xf32>) -> tensor<3xf32>", A)
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize("element", ["i32", "i64"])
def test_the_least_integer_is_neutral_to_a_maximum(context: Any, element: str) -> None:
    dtype = {"i32": np.int32, "i64": np.int64}[element]
    least = int(np.iinfo(dtype).min)
    body = reduce(element, "1x2", f"%s = arith.maxsi %a, %b : {element}\n linalg.yield %s : {element}", str(least))
    numbers = np.array([[least, least + 1]], dtype)
    assert call(body, f"(tensor<1x2x{element}>) -> tensor<1x{element}>", numbers)[0].tolist() == [least + 1]


def test_a_body_that_does_more_than_combine_goes_in_order(context: Any) -> None:
    half = "%h = arith.constant 0.5 : f32\n %m = arith.mulf %b, %h : f32\n"
    body = reduce("f32", "3x4", f"{half} %s = arith.addf %m, %a : f32\n linalg.yield %s : f32", "1.0")
    wanted = np.ones(3, np.float32)
    for column in A.T:
        wanted = wanted * np.float32(0.5) + column
    np.testing.assert_allclose(call(body, "(tensor<3x4xf32>) -> tensor<3xf32>", A)[0], wanted, rtol=1e-6)


def test_what_is_combined_may_depend_on_the_output(context: Any) -> None:
    """`b + (a - b)` is the last `a`, not their sum."""
    body = reduce(
        "i32", "2x3", "%d = arith.subi %a, %b : i32\n%s = arith.addi %b, %d : i32\nlinalg.yield %s : i32", "0"
    )
    numbers = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    assert call(body, "(tensor<2x3xi32>) -> tensor<2xi32>", numbers)[0].tolist() == [3, 6]


def test_a_sum_of_bits_is_their_parity(context: Any) -> None:
    body = reduce("i1", "2x2", "%s = arith.addi %b, %a : i1\nlinalg.yield %s : i1", "false")
    bits = np.array([[True, True], [True, False]])
    assert call(body, "(tensor<2x2xi1>) -> tensor<2xi1>", bits)[0].tolist() == [False, True]


def test_arg_max(context: Any) -> None:
    body = """
      %low = arith.constant dense<-1.0e30> : tensor<3xf32>
      %zero = arith.constant dense<0> : tensor<3xi64>
      %r:2 = linalg.generic {indexing_maps = [#v, #r, #r], iterator_types = ["parallel", "reduction"]}
        ins(%0 : tensor<3x4xf32>) outs(%low, %zero : tensor<3xf32>, tensor<3xi64>) {
      ^bb0(%a: f32, %b: f32, %i: i64):
        %n = linalg.index 1 : index
        %m = arith.index_cast %n : index to i64
        %g = arith.cmpf ogt, %a, %b : f32
        %x = arith.select %g, %a, %b : f32
        %y = arith.select %g, %m, %i : i64
        linalg.yield %x, %y : f32, i64
      } -> (tensor<3xf32>, tensor<3xi64>)
      return %r#0, %r#1 : tensor<3xf32>, tensor<3xi64>"""
    value, index = call(body, "(tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3xi64>)", A)
    assert (value.tolist(), index.tolist()) == (A.max(1).tolist(), A.argmax(1).tolist())


def test_reading_by_index(context: Any) -> None:
    body = """
      %empty = tensor.empty() : tensor<2x4xf32>
      %r = linalg.generic {indexing_maps = [#p, #v], iterator_types = ["parallel", "parallel"]}
        ins(%1 : tensor<2x1xi64>) outs(%empty : tensor<2x4xf32>) {
      ^bb0(%a: i64, %b: f32):
        %i = arith.index_cast %a : i64 to index
        %j = linalg.index 1 : index
        %x = tensor.extract %0[%i, %j] : tensor<3x4xf32>
        linalg.yield %x : f32
      } -> tensor<2x4xf32>
      return %r : tensor<2x4xf32>"""
    types = "(tensor<3x4xf32>, tensor<2x1xi64>) -> tensor<2x4xf32>"
    assert call(body, types, A, np.array([[2], [0]]))[0].tolist() == A[[2, 0]].tolist()
    for outside in (3, -1):
        with pytest.raises(DmcError, match=f"tensor.extract: reads index .*{outside}.* of 3"):
            call(body, types, A, np.array([[outside], [0]]))


SCALARS: dict[str, tuple[str, str, Any, Any]] = {
    "set_bit_is_minus_one": ("arith.extsi %0 : tensor<2xi1> to tensor<2xi32>", "i1 -> i32", [0, 1], [0, -1]),
    "set_bit_is_one": ("arith.extui %0 : tensor<2xi1> to tensor<2xi32>", "i1 -> i32", [0, 1], [0, 1]),
    "lowest_bit": ("arith.trunci %0 : tensor<2xi32> to tensor<2xi1>", "i32 -> i1", [2, 3], [False, True]),
    "sum_of_bits": ("arith.addi %0, %0 : tensor<2xi1>", "i1 -> i1", [0, 1], [False, False]),
    "unsigned_to_float": ("arith.uitofp %0 : tensor<2xi8> to tensor<2xf32>", "i8 -> f32", [-1, 1], [255, 1]),
    "unsigned_below": ("arith.cmpi ult, %0, %z : tensor<2xi32>", "i32 -> i1", [-1, 0], [False, True]),
    "signed_below": ("arith.cmpi slt, %0, %z : tensor<2xi32>", "i32 -> i1", [-1, 1], [True, False]),
    "unsigned_shift": ("arith.shrui %0, %o : tensor<2xi32>", "i32 -> i32", [-2, 4], [2**31 - 1, 2]),
    "signed_shift": ("arith.shrsi %0, %o : tensor<2xi32>", "i32 -> i32", [-2, 4], [-1, 2]),
    "wraps": ("arith.addi %0, %o : tensor<2xi32>", "i32 -> i32", [2**31 - 1, 0], [-(2**31), 1]),
    "divides_toward_zero": ("arith.divsi %0, %t : tensor<2xi32>", "i32 -> i32", [-7, 7], [-3, 3]),
    "remainder_has_the_sign": ("arith.remsi %0, %t : tensor<2xi32>", "i32 -> i32", [-7, 7], [-1, 1]),
    "rounds_to_even": ("arith.truncf %0 : tensor<2xf32> to tensor<2xbf16>", "f32 -> bf16", [257, 259], [256, 260]),
    "cuts": ("arith.fptosi %0 : tensor<2xf32> to tensor<2xi32>", "f32 -> i32", [-1.7, 1.7], [-1, 1]),
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalars(context: Any, name: str) -> None:
    op, types, given, wanted = SCALARS[name]
    source, _, result = types.partition(" -> ")
    constants = [f"%{c} = arith.constant dense<{n}> : tensor<2xi32>" for c, n in (("z", 1), ("o", 1), ("t", 2))]
    body = "\n".join([*constants, f"%r = {op}", f"return %r : tensor<2x{result}>"])
    dtypes = {"i1": np.bool_, "i8": np.int8, "i32": np.int32, "f32": np.float32, "bf16": BF16}
    (found,) = call(body, f"(tensor<2x{source}>) -> tensor<2x{result}>", np.array(given).astype(dtypes[source]))
    assert (found.dtype, found.tolist()) == (dtypes[result], wanted)


def test_shapes(context: Any) -> None:
    body = """
      %zero = arith.constant 7.0 : f32
      %p = tensor.pad %0 low[1, 0] high[0, 1] {
      ^bb0(%i: index, %j: index):
        tensor.yield %zero : f32
      } : tensor<3x4xf32> to tensor<4x5xf32>
      %s = tensor.extract_slice %p[1, 0] [2, 2] [2, 3] : tensor<4x5xf32> to tensor<2x2xf32>
      %e = tensor.expand_shape %s [[0, 1], [2]] output_shape [1, 2, 2] : tensor<2x2xf32> into tensor<1x2x2xf32>
      %c = tensor.collapse_shape %e [[0], [1, 2]] : tensor<1x2x2xf32> into tensor<1x4xf32>
      %i = tensor.insert_slice %c into %0[1, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<3x4xf32>
      %j = tensor.concat dim(0) %i, %c : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
      return %p, %j : tensor<4x5xf32>, tensor<4x4xf32>"""
    padded, joined = call(body, "(tensor<3x4xf32>) -> (tensor<4x5xf32>, tensor<4x4xf32>)", A)
    assert padded.tolist() == np.pad(A, [(1, 0), (0, 1)], constant_values=7).tolist()
    row = padded[1:4:2, 0:4:3].reshape(1, 4)
    assert joined.tolist() == np.concatenate([A[:1], row, A[2:], row]).tolist()


def test_loops_and_branches(context: Any) -> None:
    body = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %0) -> tensor<2xi32> {
        %last = arith.cmpi eq, %i, %c1 : index
        %y = scf.if %last -> tensor<2xi32> {
          scf.yield %0 : tensor<2xi32>
        } else {
          %d = func.call @double(%x) : (tensor<2xi32>) -> tensor<2xi32>
          scf.yield %d : tensor<2xi32>
        }
        scf.yield %y : tensor<2xi32>
      }
      %s = "dm.composite"(%r) {kind = "double", decomposition = @double, parameters = {}}
        : (tensor<2xi32>) -> tensor<2xi32>
      return %s : tensor<2xi32>"""
    double = """func.func private @double(%0: tensor<2xi32>) -> tensor<2xi32> {
      %d = arith.addi %0, %0 : tensor<2xi32>
      return %d : tensor<2xi32>
    }"""
    types = "(tensor<2xi32>) -> tensor<2xi32>"
    assert call(body, types, np.array([1, 2], np.int32), beside=double)[0].tolist() == [4, 8]


def test_results_are_memory_of_their_own(context: Any) -> None:
    given = A.copy()
    results = call(
        "return %0, %0 : tensor<3x4xf32>, tensor<3x4xf32>",
        "(tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)",
        given,
    )
    given[:] = 0
    results[0][:] = 1
    assert results[1].tolist() == A.tolist()


def test_what_is_not_known_is_refused(context: Any) -> None:
    with pytest.raises(DmcError, match=r"math\.fma: the interpreter does not support it"):
        call(
            "%r = math.fma %0, %0, %0 : tensor<2xf32>\nreturn %r : tensor<2xf32>",
            "(tensor<2xf32>) -> tensor<2xf32>",
            A[0, :2],
        )


def test_only_private_functions_are_kernels(context: Any) -> None:
    text = "func.func private @k() { return }\nfunc.func private @declared()\nfunc.func @step() { return }"
    module = ir.Module.parse(text)
    assert list(kernels_of(module)) == ["k"]
