"""The text of steps with linear layers before an attention, and behind its gradient, for tests of what is merged."""

from __future__ import annotations

from collections.abc import Callable

_MAPS = """#row = affine_map<(i, j) -> (i, j)>
#bias = affine_map<(i, j) -> (j)>
#one = affine_map<(i, j) -> ()>
"""
_LOOPS = 'iterator_types = ["parallel", "parallel"]'


def cast(result: str, value: str, shape: str, op: str = "truncf") -> str:
    """`%result = op(%value)`; truncf: f32 to bf16, extf: back."""
    source, target = ("f32", "bf16") if op == "truncf" else ("bf16", "f32")
    return f"""  %{result}_e = tensor.empty() : tensor<{shape}x{target}>
  %{result} = linalg.generic {{indexing_maps = [#row, #row], {_LOOPS}}}
      ins(%{value} : tensor<{shape}x{source}>) outs(%{result}_e : tensor<{shape}x{target}>) {{
    ^bb0(%a: {source}, %b: {target}):
      %c = arith.{op} %a : {source} to {target}
      linalg.yield %c : {target}
  }} -> tensor<{shape}x{target}>
"""


def turned(result: str, value: str, rows: int, columns: int) -> str:
    """The transposed matrix."""
    return f"""  %{result}_e = tensor.empty() : tensor<{columns}x{rows}xbf16>
  %{result} = linalg.transpose ins(%{value} : tensor<{rows}x{columns}xbf16>)
      outs(%{result}_e : tensor<{columns}x{rows}xbf16>) permutation = [1, 0]
"""


def product(result: str, left: str, right: str, sizes: tuple[int, int, int], start: str = "", place: str = "") -> str:
    """The product of m × k and k × n, added to `start` or zero."""
    m, k, n = sizes
    return f"""  %{result}_e = tensor.empty() : tensor<{m}x{n}xf32>
  %{result}_z = linalg.fill ins(%zero : f32) outs(%{result}_e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %{result} = linalg.matmul ins(%{left}, %{right} : tensor<{m}x{k}xbf16>, tensor<{k}x{n}xbf16>)
      outs(%{start or f"{result}_z"} : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32> loc("{place}")
"""


def joined(result: str, value: str, other: str, op: str = "addf", kind: str = "row") -> str:
    """A matrix of 8 × 16 joined with a row, a number ("one") or another."""
    shape = {"row": "8x16x", "bias": "16x", "one": ""}[kind]
    return f"""  %{result}_e = tensor.empty() : tensor<8x16xf32>
  %{result} = linalg.generic {{indexing_maps = [#row, #{kind}, #row], {_LOOPS}}}
      ins(%{value}, %{other} : tensor<8x16xf32>, tensor<{shape}f32>) outs(%{result}_e : tensor<8x16xf32>) {{
    ^bb0(%a: f32, %b: f32, %c: f32):
      %d = arith.{op} %a, %b : f32
      linalg.yield %d : f32
  }} -> tensor<8x16xf32>
"""


def attended(layer: Callable[[str], str], *, more: str = "", width: int = 16, weight: str = "f32") -> str:
    """An attention of what `layer` gives, `%qr`, `%kr` and `%vr`, from weights `%q`, `%k` and `%v`.

    more: the name and the type of what is returned besides.
    """
    name, _, type_ = more.partition(": ")
    weights = ", ".join(f"%{each}: tensor<{width}x16x{weight}>" for each in "qkv")
    vectors = ", ".join(f"%b{each}: tensor<16xf32>, %s{each}: tensor<f32>" for each in "qkv")
    row = f"tensor<8x{width}xbf16>"
    return f"""{_MAPS}func.func @step(%x: tensor<8x16xbf16>, {weights}, {vectors}) -> ({row}{type_ and f", {type_}"}) {{
  %zero = arith.constant 0.0 : f32
{"".join(map(layer, "qkv"))}  %y = "dm.composite"(%qr, %kr, %vr)
      {{kind = "attention", decomposition = @f, parameters = {{}}}} : ({row}, {row}, {row}) -> {row}
  return %y{name and f", {name}"} : {row}{type_ and f", {type_}"}
}}
"""


def differentiated(
    behind: Callable[[str], str], *, terms: str = "vkq", more: str = "", width: int = 16, weight: str = "f32"
) -> str:
    """An attention's gradient, what follows each result, and the sum of `%r` and terms `%vt`, …; returns it, the
    gradients of weights, `%qw`, …, and `more`."""
    name, _, type_ = more.partition(": ")
    weights = ", ".join(f"%{each}: tensor<{width}x16x{weight}>" for each in "qkv")
    row, made = f"tensor<8x{width}xbf16>", ", ".join([f"tensor<{width}x16xbf16>"] * 3)
    types = f"tensor<8x16xf32>, {made}{type_ and f', {type_}'}"
    sums = "".join(joined(f"sum{i + 1}", f"sum{i}" if i else "r", f"{each}t") for i, each in enumerate(terms))
    return f"""{_MAPS}func.func @step(%x: tensor<8x16xbf16>, %r: tensor<8x16xf32>, {weights}) -> ({types}) {{
  %zero = arith.constant 0.0 : f32
  %g:3 = "dm.composite"(%x) {{kind = "attention_backward", decomposition = @f, parameters = {{}}}}
      : (tensor<8x16xbf16>) -> ({row}, {row}, {row})
{"".join(map(behind, "vkq"))}{sums}  return %sum{len(terms)}, %qw, %kw, %vw{name and f", {name}"} : {types}
}}
"""
