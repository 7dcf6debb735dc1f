"""Which operands of products go into panels, and what IREE's program makes of products that are marked."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.lowering import kernels
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels import compile_kernels
from dmc.lowering.panel_loops import is_marked, misread_panels, with_panel_loops
from dmc.lowering.panels import pack_panels
from dmc.target import target

Check = Callable[[ir.Module], None]
NATIVE = "native_vector_size = {size} : i64\n"


def _product(name: str, m: int, n: int, k: int, transposed: str = "right", element: str = "f32") -> str:
    """The function `name`: a product of which the `transposed` operand is stored the other way round."""
    left, right, out = (f"tensor<{a}x{b}x{element}>" for a, b in ((m, k), (k, n), (m, n)))
    turned = {"left": ("%x", left, m, k), "right": ("%y", right, k, n)}.get(transposed)
    stored = {"%x": left, "%y": right}
    body = ""
    operands = ["%x", "%y"]
    if turned is not None:
        value, type_, a, b = turned
        stored[value] = f"tensor<{b}x{a}x{element}>"
        body = (
            f"%e = tensor.empty() : {type_}\n"
            f"%t = linalg.transpose ins({value} : {stored[value]}) outs(%e : {type_}) permutation = [1, 0]"
        )
        operands = ["%t" if each == value else each for each in operands]
    return f"""
    func.func private @{name}(%x: {stored["%x"]}, %y: {stored["%y"]}) -> {out} {{
      {body}
      %zero = arith.constant 0.0 : {element}
      %empty = tensor.empty() : {out}
      %zeros = linalg.fill ins(%zero : {element}) outs(%empty : {out}) -> {out}
      %z = linalg.matmul ins({operands[0]}, {operands[1]} : {left}, {right}) outs(%zeros : {out}) -> {out}
      return %z : {out}
    }}"""


def test_a_transposed_right_matrix_is_cut_along_its_columns(context: ir.Context, filecheck: Check) -> None:
    module = ir.Module.parse(_product("right", 64, 96, 40))
    pack_panels(module)
    assert module.operation.verify()
    # CHECK: %[[CUT:.+]] = tensor.expand_shape %arg1 {{\[\[}}0, 1], [2]] output_shape [6, 16, 40]
    # CHECK: %[[TURNED:.+]] = linalg.transpose ins(%[[CUT]] {{.+}} permutation = [0, 2, 1]
    # CHECK: %[[IN_MEMORY:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[TURNED]]) : (tensor<6x40x16xf32>)
    # CHECK: %[[ROW:.+]] = tensor.collapse_shape %[[IN_MEMORY]]
    # CHECK: %[[MATRIX:.+]] = tensor.expand_shape %[[ROW]] {{.+}} output_shape [40, 96]
    # CHECK: linalg.matmul {panels = "right"} ins(%arg0, %[[MATRIX]]
    filecheck(module)


def test_with_a_transposed_left_matrix_both_are_cut(context: ir.Context, filecheck: Check) -> None:
    module = ir.Module.parse(_product("left", 64, 96, 40, "left"))
    pack_panels(module)
    assert module.operation.verify()
    # CHECK-DAG: linalg.transpose ins({{.+}} : tensor<40x6x16xf32>) outs({{.+}} : tensor<6x40x16xf32>)
    # CHECK-DAG: linalg.transpose ins({{.+}} : tensor<40x4x16xf32>) outs({{.+}} : tensor<4x40x16xf32>)
    # CHECK: linalg.matmul {panels = "both"}
    filecheck(module)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    "text",
    [
        _product("few_rows", 48, 96, 40),
        _product("few_columns", 64, 48, 40),
        _product("rows_left_over", 72, 96, 40),
        _product("columns_left_over", 64, 100, 40),
        _product("nothing_to_transpose", 496, 96, 40, ""),
        _product("narrow", 64, 96, 40, element="bf16"),
    ],
)
def test_products_that_are_left_alone(text: str) -> None:
    module = ir.Module.parse(text)
    before = str(module)
    pack_panels(module)
    assert str(module) == before


@pytest.mark.usefixtures("context")
def test_many_rows_pay_for_a_matrix_that_lies_right() -> None:
    module = ir.Module.parse(_product("plain", 512, 96, 40, ""))
    pack_panels(module)
    assert 'panels = "right"' in str(module)


def _executable(transposed: str = "left") -> tuple[str, CodeLibrary]:
    """The text of a marked product in IREE's program, and the library that it is of."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        text = _product("k", 512, 96, 40, transposed)
        library = compile_kernels(ir.Module.parse(text), ["k"], target("cpu:x86-64-v3"))
    (marked,) = (each for each in library.executables.values() if is_marked(each))
    return marked, library


@pytest.mark.parametrize(
    ("size", "transposed", "tile"),
    [
        (32, "right", "vector_common_parallel = [4, 1, 16, 0]"),
        (64, "right", "vector_common_parallel = [8, 2, 16, 0]"),
        (32, "left", "vector_common_parallel = [1, 4, 1, 16, 0]"),
        (64, "left", "vector_common_parallel = [1, 8, 2, 16, 0]"),
        (16, "right", "vector_common_parallel = [4, 1, 16, 0]"),
    ],
)
def test_tiles_fit_into_the_registers(size: int, transposed: str, tile: str) -> None:
    program = with_panel_loops(NATIVE.format(size=size) + _executable(transposed)[0], cores=2)
    assert tile in program
    # The tile of a task: 128 rows, which are 8 panels of a left matrix in panels, by all 6 panels of columns.
    assert f"distribution = {[8, 0, 6, 0, 0] if transposed == 'left' else [128, 6, 0, 0]}" in program
    assert not is_marked(program)


def test_more_cores_get_smaller_tiles() -> None:
    text = _executable("right")[0]
    few, many = (re.search(r"distribution = \[(\d+), (\d+)", with_panel_loops(text, cores)) for cores in (1, 8))
    assert few is not None and many is not None
    assert (few[1], few[2], many[1], many[2]) == ("128", "6", "32", "6")


def test_a_product_that_reads_no_whole_matrix_of_its_own_is_told() -> None:
    text, library = _executable("right")
    assert misread_panels('func.func @k() { panels = "right" }', library) == set()
    (name,) = (name for name, each in library.executables.items() if each == text)
    load = re.search(r"%\S+ = \S+tensor\.load %\S+, offsets = \[0, 0\], sizes = \[40, 96\][^\n]*", text)
    product = re.search(r"%\S+ = linalg\.matmul [^\n]*", text)
    assert load is not None and product is not None
    sliced = load[0].replace("[0, 0]", "[8, 0]")
    again, other = (re.sub("^%", "%another_", line) for line in (load[0], product[0]))
    changes = (load[0], sliced), (load[0], f"{load[0]}\n{again}"), (product[0], f"{product[0]}\n{other}")
    for changed in (text.replace(*each) for each in changes):
        assert with_panel_loops(changed, 2) == changed
        misreading = CodeLibrary("", library.kernels, {**library.executables, name: changed})
        assert misread_panels('func.func @k() { panels = "right" }', misreading) == {"k"}
    assert misread_panels('func.func @k() { panels = "right", panels = "right" }', library) == {"k"}


def test_what_cannot_be_loops_over_panels_is_compiled_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_misread(given: str, library: CodeLibrary) -> set[str]:
        return set(library.kernels)

    monkeypatch.setattr(kernels, "misread_panels", all_misread)
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        library = compile_kernels(ir.Module.parse(_product("k", 512, 96, 40)), ["k"], target("cpu:x86-64-v3"))
    assert not any(is_marked(each) for each in library.executables.values())


def test_what_is_compiled_again_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(({"k"}, {"other"}, set[str]()))
    monkeypatch.setattr(kernels, "misread_panels", lambda given, library: next(answers))
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        module = ir.Module.parse(_product("k", 512, 96, 40) + _product("other", 512, 96, 48))
        library = compile_kernels(module, ["k", "other"], target("cpu:x86-64-v3"))
    assert not any(is_marked(each) for each in library.executables.values())
