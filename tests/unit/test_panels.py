"""Which operands of products go into panels, and what IREE's program makes of products that are marked."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels import kernels
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.kernels.panel_loops import is_marked, misread_panels, with_panel_loops
from dmc.lowering.kernels.rewrites.pack_panels import PackPanels
from dmc.lowering.stream.panel_packing import with_packing_tiles
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
    PackPanels().run(module)
    assert module.operation.verify()
    # CHECK: %[[CUT:.+]] = tensor.expand_shape %arg1 {{\[\[}}0, 1], [2]] output_shape [6, 16, 40]
    # CHECK: %[[TURNED:.+]] = linalg.transpose ins(%[[CUT]] {{.+}} permutation = [0, 2, 1]
    # CHECK: %[[IN_MEMORY:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[TURNED]]) : (tensor<6x40x16xf32>)
    # CHECK: %[[ROW:.+]] = tensor.collapse_shape %[[IN_MEMORY]]
    # CHECK: %[[MATRIX:.+]] = tensor.expand_shape %[[ROW]] {{.+}} output_shape [40, 96]
    # CHECK: %[[RESULT:.+]] = linalg.matmul {panels = true} ins(%arg0, %[[MATRIX]]
    # CHECK: return %[[RESULT]]
    filecheck(module)


def test_a_transposed_left_matrix_is_transposed_in_memory(context: ir.Context, filecheck: Check) -> None:
    module = ir.Module.parse(_product("left", 64, 96, 40, "left"))
    PackPanels().run(module)
    assert module.operation.verify()
    # CHECK: linalg.transpose ins({{.+}} : tensor<40x6x16xf32>) outs({{.+}} : tensor<6x40x16xf32>)
    # CHECK: %[[TURNED:.+]] = linalg.transpose ins(%arg0 : tensor<40x64xf32>)
    # CHECK: %[[LEFT:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[TURNED]]) : (tensor<64x40xf32>)
    # CHECK: linalg.matmul {panels = true} ins(%[[LEFT]], %{{.+}} : tensor<64x40xf32>, tensor<40x96xf32>)
    filecheck(module)


def test_columns_left_over_get_a_panel_with_zeros(context: ir.Context, filecheck: Check) -> None:
    module = ir.Module.parse(_product("padded", 64, 806, 40))
    PackPanels().run(module)
    assert module.operation.verify()
    # CHECK-DAG: tensor.extract_slice %arg1[0, 0] [800, 40] [1, 1]
    # CHECK-DAG: %[[LEFT_OVER:.+]] = tensor.extract_slice %arg1[800, 0] [6, 40] [1, 1]
    # CHECK-DAG: tensor.insert_slice %[[LEFT_OVER]] into %{{.+}}[0, 0] [6, 40] [1, 1] : {{.+}} into tensor<16x40xf32>
    # CHECK: tensor.insert_slice %{{.+}} into %{{.+}}[50, 0, 0] [1, 40, 16] [1, 1, 1] : {{.+}} into tensor<51x40x16xf32>
    # CHECK: %[[RESULT:.+]] = linalg.matmul {panels = true} {{.+}} -> tensor<64x816xf32>
    # CHECK: %[[READ:.+]] = tensor.extract_slice %[[RESULT]][0, 0] [64, 806] [1, 1]
    # CHECK: return %[[READ]]
    filecheck(module)


def test_rows_left_over_are_zeros_behind_the_transpose(context: ir.Context, filecheck: Check) -> None:
    module = ir.Module.parse(_product("padded", 806, 96, 40, "left"))
    PackPanels().run(module)
    assert module.operation.verify()
    # CHECK: %[[TURNED:.+]] = linalg.transpose ins(%arg0 : tensor<40x806xf32>)
    # CHECK: tensor.insert_slice %[[TURNED]] into %{{.+}}[0, 0] [806, 40] [1, 1] : {{.+}} into tensor<816x40xf32>
    # CHECK: %[[RESULT:.+]] = linalg.matmul {panels = true} {{.+}} -> tensor<816x96xf32>
    # CHECK: %[[READ:.+]] = tensor.extract_slice %[[RESULT]][0, 0] [806, 96] [1, 1]
    # CHECK: return %[[READ]]
    filecheck(module)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    "text",
    [
        _product("few_rows", 48, 96, 40),
        _product("few_columns", 64, 48, 40),
        _product("rows_left_over", 72, 96, 40),
        _product("columns_left_over", 64, 790, 40),
        _product("rows_of_a_matrix_that_lies_right", 806, 96, 40),
        # What is added to lies in memory without padding.
        _product("sum", 64, 806, 40).replace("outs(%zeros", "outs(%empty"),
        _product("nothing_to_transpose", 496, 96, 40, ""),
        _product("narrow", 64, 96, 40, element="bf16"),
    ],
)
def test_products_that_are_left_alone(text: str) -> None:
    module = ir.Module.parse(text)
    before = str(module)
    PackPanels().run(module)
    assert str(module) == before


@pytest.mark.usefixtures("context")
def test_many_rows_pay_for_a_matrix_that_lies_right() -> None:
    module = ir.Module.parse(_product("plain", 512, 96, 40, ""))
    PackPanels().run(module)
    assert "panels = true" in str(module)


def _shared(rows: int, depth: int = 40) -> str:
    """The function `k`: a product whose right operand lies in panels."""
    out = f"tensor<{rows}x96xf32>"
    return f"""
    func.func private @k(%x: tensor<{rows}x{depth}xf32>, %panels: tensor<6x{depth}x16xf32>) -> {out} {{
      %e = tensor.empty() : tensor<{depth}x6x16xf32>
      %t = linalg.transpose ins(%panels : tensor<6x{depth}x16xf32>) outs(%e : tensor<{depth}x6x16xf32>)
        permutation = [1, 0, 2]
      %w = tensor.collapse_shape %t [[0], [1, 2]] : tensor<{depth}x6x16xf32> into tensor<{depth}x96xf32>
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : {out}
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : {out}) -> {out}
      %z = linalg.matmul ins(%x, %w : tensor<{rows}x{depth}xf32>, tensor<{depth}x96xf32>) outs(%zeros : {out}) -> {out}
      return %z : {out}
    }}"""


def test_what_lies_in_panels_is_read_from_them(context: ir.Context, filecheck: Check) -> None:
    module = ir.Module.parse(_shared(16))
    PackPanels().run(module)
    assert module.operation.verify()
    # CHECK: %[[ROW:.+]] = tensor.collapse_shape %arg1 {{\[\[}}0, 1, 2]] : tensor<6x40x16xf32>
    # CHECK: %[[MATRIX:.+]] = tensor.expand_shape %[[ROW]] {{.+}} output_shape [40, 96]
    # CHECK: linalg.matmul {panels = true} ins(%arg0, %[[MATRIX]]
    filecheck(module)


@pytest.mark.usefixtures("context")
def test_transposes_of_another_order_are_no_panels() -> None:
    text = _shared(16, depth=16).replace("permutation = [1, 0, 2]", "permutation = [2, 0, 1]")
    module = ir.Module.parse(text)
    before = str(module)
    PackPanels().run(module)
    assert str(module) == before


def _executable(product: str | None = None) -> tuple[str, CodeLibrary]:
    """The text of a marked product in IREE's program, and the library that it is of."""
    text = product or _product("k", 512, 96, 40)
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        library = compile_kernels(ir.Module.parse(text), ["k"], target("cpu:x86-64-v3"))
    (marked,) = (each for each in library.executables.values() if is_marked(each))
    return marked, library


@pytest.mark.parametrize(
    ("size", "tile"),
    [(32, [6, 1, 16, 0]), (64, [8, 2, 16, 0]), (16, [4, 1, 16, 0])],
)
def test_tiles_fit_into_the_registers(size: int, tile: list[int]) -> None:
    program = with_panel_loops(NATIVE.format(size=size) + _executable()[0], cores=2)
    assert f"vector_common_parallel = {tile}" in program
    # Rows of a task's tile that are left over have a loop of their own.
    assert ("enable_loop_peeling" in program) == (16 % tile[0] > 0)
    # The tile of a task: 128 rows by all 6 panels of columns.
    assert "distribution = [128, 6, 0, 0]" in program
    assert not is_marked(program)


@pytest.mark.parametrize(
    ("rows", "size", "tiles", "is_peeled"),
    [
        (16, 32, "[16, 3, 0, 0], vector_common_parallel = [6, 1, 16, 0]", True),
        (16, 64, "[16, 6, 0, 0], vector_common_parallel = [8, 2, 16, 0]", False),
        (20, 64, "[20, 6, 0, 0], vector_common_parallel = [8, 2, 16, 0]", True),
        (5, 64, "[5, 6, 0, 0], vector_common_parallel = [5, 2, 16, 0]", False),
    ],
)
def test_tiles_of_few_rows(rows: int, size: int, tiles: str, is_peeled: bool) -> None:
    program = with_panel_loops(NATIVE.format(size=size) + _executable(_shared(rows))[0], cores=2)
    assert f"cache_parallel = {tiles}" in program
    assert ("enable_loop_peeling" in program) == is_peeled
    assert not is_marked(program)


PACKING = """%5 = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, \
affine_map<(d0, d1, d2) -> (d1, d0, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}} \
ins(%3 : tensor<{rows}x{panels}x16xf32>) \
outs(%4 : tensor<{panels}x{rows}x16xf32>) {{
        ^bb0(%in: f32, %out: f32):
          {body}linalg.yield %{result} : f32
        }} -> tensor<{panels}x{rows}x16xf32>"""


@pytest.mark.parametrize(
    ("rows", "panels", "tile"),
    [(1024, 32, [64, 4, 16]), (128, 6, [128, 2, 16]), (512, 1907, [256, 1, 16]), (64, 6, [64, 1, 16])],
)
def test_columns_are_put_into_panels_by_whole_lines(rows: int, panels: int, tile: list[int]) -> None:
    text = PACKING.format(rows=rows, panels=panels, body="", result="in")
    assert f"<distribution = {tile}, vector_common_parallel = [8, 1, 16]>" in with_packing_tiles(text)


@pytest.mark.parametrize(
    "text",
    [
        PACKING.format(rows=40, panels=4, body="", result="in"),
        PACKING.format(rows=1024, panels=32, body="%6 = arith.negf %in : f32\n          ", result="6"),
    ],
    ids=["few rows", "arithmetic"],
)
def test_other_loops_keep_their_tiles(text: str) -> None:
    assert with_packing_tiles(text) == text


def test_more_cores_get_smaller_tiles() -> None:
    text = _executable()[0]
    few, many = (re.search(r"distribution = \[(\d+), (\d+)", with_panel_loops(text, cores)) for cores in (1, 8))
    assert few is not None and many is not None
    assert (few[1], few[2], many[1], many[2]) == ("128", "6", "32", "6")


def test_a_product_that_reads_no_whole_matrix_of_its_own_is_told() -> None:
    text, library = _executable()
    assert misread_panels("func.func @k() { panels = true }", library) == set()
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
        assert misread_panels("func.func @k() { panels = true }", misreading) == {"k"}
    assert misread_panels("func.func @k() { panels = true, panels = true }", library) == {"k"}


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
