"""Products of operands in panels (`dm-pack-panels`), in IREE's program: the loops that they are, and their tiles.

The tiles were measured on one core, f32: with AVX2 90 to 100 GFLOP/s, where IREE's own loops over matrices reach 20 to
80, by their shape; with AVX-512 120 to 130. Of 16 rows, the same registers were the best of those tried, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dmc.analysis.kernels.panels import WIDTH
from dmc.lowering.kernel_code import CodeLibrary, Dispatch, leaves
from dmc.lowering.kernels.rewrites.pack_panels import MARK

# Bytes of a vector → rows of the result and panels of columns that are in registers at a time: with AVX2 12 of 16
# registers hold results, with AVX-512 16 of 32. Rows that are left over have a loop of their own.
_REGISTERS = {32: (6, 1), 64: (8, 2)}
_OTHERS = (4, 1)
_STEPS = 2
# The largest sides of the tile of one task.
_ROWS, _COLUMNS = 128, 128

_MARKED = f"{MARK} = true"
_FUNCTION = re.compile(r"func\.func @(?=\w+\()")
_NATIVE_VECTOR = re.compile(r"native_vector_size = (\d+) : i64")
_EXECUTABLE = re.compile(r"(?=^\s*stream\.executable )", re.MULTILINE)
_PRODUCT = re.compile(
    r"^(?P<indent> *)(?P<result>%\S+) = linalg\.matmul \{[^{}\n]*" + _MARKED + r"\} "
    r"ins\((?P<a>%\S+), (?P<b>%\S+) : tensor<\d+x(?P<depth>\d+)xf32>, tensor<\d+x\d+xf32>\) "
    r"outs\((?P<c>%\S+) : tensor<(?P<rows>\d+)x(?P<columns>\d+)xf32>\) -> [^\n]*$",
    re.MULTILINE,
)
_BODY = """ {
^bb0(%panel_a: f32, %panel_b: f32, %panel_c: f32):
  %panel_p = arith.mulf %panel_a, %panel_b : f32
  %panel_s = arith.addf %panel_c, %panel_p : f32
  linalg.yield %panel_s : f32
} -> """


def with_panel_loops(program: str, cores: int) -> str:
    """The stream-level program with loops over panels where products are marked; others are as they were.

    `cores`: of the machine that will run it.
    """
    sizes = {int(size) for size in _NATIVE_VECTOR.findall(program)}
    registers = _REGISTERS.get(max(sizes, default=0), _OTHERS)
    return "".join(_in_executable(each, registers, cores) for each in _EXECUTABLE.split(program))


def is_marked(program: str) -> bool:
    """Whether a product is left that takes panels for a matrix: what it computes is wrong."""
    return _MARKED in program


def misread_panels(given: str, library: CodeLibrary) -> set[str]:
    """Kernels of `library` in which a product that was marked in the module `given` is not one of loops over panels."""
    misread: set[str] = set()
    for function in _FUNCTION.split(given)[1:]:
        name = function.partition("(")[0]
        used = [each.executable for each in leaves(library.kernels[name].commands) if isinstance(each, Dispatch)]
        texts = [library.executables[each] for each in used if is_marked(library.executables[each])]
        if len(texts) != function.count(_MARKED) or any(is_marked(with_panel_loops(text, 1)) for text in texts):
            misread.add(name)
    return misread


def _in_executable(text: str, registers: tuple[int, int], cores: int) -> str:
    """An executable, which holds one product; as it was where the product does not read whole operands from memory."""
    product = _PRODUCT.search(text)
    if product is None or is_marked(text[product.end() :]):
        return text
    loops = text.replace(product[0], "\n".join(_loops(product, registers, cores)))
    columns, depth = (int(product[name]) for name in ("columns", "depth"))
    return _reads_panels(loops, product["b"], (depth, columns), (columns // WIDTH, depth, WIDTH)) or text


def _reads_panels(text: str, name: str, matrix: tuple[int, int], panels: tuple[int, int, int]) -> str | None:
    """The text in which the value `name` is read from memory as panels, not as a matrix; None where it is no read."""
    stored, packed = ("x".join(map(str, each)) for each in (matrix, panels))
    sizes = ", ".join(map(str, matrix))
    load = re.search(
        rf"{name} = iree_tensor_ext\.dispatch\.tensor\.load (%\S+), offsets = \[0, 0\], sizes = \[{sizes}\], "
        rf"strides = \[1, 1\] : [^\n]*tensor<{stored}xf32>> -> tensor<{stored}xf32>",
        text,
    )
    binding = load and re.search(rf"{load[1]} = stream\.binding\.subspan [^\n]*tensor<{stored}xf32>>", text)
    if not load or not binding or len(re.findall(rf"{load[1]}\b", text)) > 2:
        return None
    whole = ", ".join(map(str, panels))
    read = load[0].replace(f"sizes = [{sizes}]", f"sizes = [{whole}]").replace(stored, packed)
    read = read.replace("offsets = [0, 0]", "offsets = [0, 0, 0]").replace("strides = [1, 1]", "strides = [1, 1, 1]")
    return text.replace(load[0], read).replace(binding[0], binding[0].replace(stored, packed))


def _loops(product: re.Match[str], registers: tuple[int, int], cores: int) -> Iterator[str]:
    """What stands for the product: its result in panels of columns, which is a matrix as it lies in memory."""
    rows, columns, depth = (int(product[name]) for name in ("rows", "columns", "depth"))
    panels = columns // WIDTH
    result, matrix = f"tensor<{rows}x{panels}x{WIDTH}xf32>", f"tensor<{rows}x{columns}xf32>"
    places = ("d0, d3", "d1, d3, d2", "d0, d1, d2")
    maps = ", ".join(f"affine_map<(d0, d1, d2, d3) -> ({each})>" for each in places)
    kinds = ", ".join(['"parallel"'] * 3)
    operands = f"{product['a']}, {product['b']} : tensor<{rows}x{depth}xf32>, tensor<{panels}x{depth}x{WIDTH}xf32>"
    info = _tiles(rows, panels, depth, registers, cores)
    lines = [
        f"%panel_i = tensor.expand_shape {product['c']} [[0], [1, 2]] output_shape [{rows}, {panels}, {WIDTH}] : "
        f"{matrix} into {result}",
        f'%panel_r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}, "reduction"]}} '
        f"ins({operands}) outs(%panel_i : {result}) attrs = {{compilation_info = {info}}}{_BODY}{result}",
        f"{product['result']} = tensor.collapse_shape %panel_r [[0], [1, 2]] : {result} into {matrix}",
    ]
    return (product["indent"] + line for each in lines for line in each.splitlines())


def _tiles(rows: int, panels: int, depth: int, registers: tuple[int, int], cores: int) -> str:
    height, width = registers
    width = width if panels % width == 0 else 1
    tall, wide = _tile(rows, panels, width, cores)
    height = min(height, tall)
    side = [tall, wide, 0, 0]
    lowering = (
        f"#iree_cpu.lowering_config<distribution = {side}, cache_parallel = {side}, "
        f"vector_common_parallel = {[height, width, WIDTH, 0]}, "
        f"vector_reduction = {[0, 0, 0, _STEPS if depth % _STEPS == 0 else 1]}>"
    )
    peeled = ", {enable_loop_peeling}" if tall % height else ""
    translation = f"#iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>{peeled}>"
    return f"#iree_codegen.compilation_info<lowering_config = {lowering}, translation_info = {translation}>"


def _tile(rows: int, panels: int, width: int, cores: int) -> tuple[int, int]:
    """Rows and panels of the tile of one task: the largest that divide the result, with two tasks for each core."""
    # Products that share panels may have any number of rows, below that of a tile.
    tall = max((each for each in range(WIDTH, _ROWS + 1, WIDTH) if rows % each == 0), default=rows)
    wide = max(each for each in range(width, _COLUMNS // WIDTH + 1, width) if panels % each == 0)
    while (rows // tall) * (panels // wide) < 2 * cores:
        if tall % (2 * WIDTH) == 0:
            tall //= 2
        elif wide % (2 * width) == 0:
            wide //= 2
        else:
            break
    return tall, wide
