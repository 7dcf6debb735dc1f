"""Padding of long chains: what is computed with padding is found once for each value, without calls in calls."""

from __future__ import annotations

import pytest

from dmc._mlir import ir
from dmc.passes.placed.pad_uneven import PadUneven

# `first` is the chain's first value, each of which is read twice by the next.
STEP = """
#both = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
"dm.mesh"() {{sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]}} : () -> ()
func.func @step(%x: tensor<4xf32>, %y: tensor<4x7xf32>, %w: tensor<4x7xf32> {{dm.name = "w", dm.role = "parameter",
                dm.sharding = #dm.sharding<@mesh, [[], ["tp"]], {{}}>, dm.pads = [array<i64>, array<i64: 1, 7, 8>]}})
    -> (tensor<4x7xf32> {{dm.name = "w"}}) {{
  %empty = tensor.empty() : tensor<4x7xf32>
{first}
{chain}
  %new = linalg.generic {{indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]}}
      ins(%w, %v{length} : tensor<4x7xf32>, tensor<4x7xf32>) outs(%empty : tensor<4x7xf32>) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.mulf %a, %b : f32
      linalg.yield %c : f32
  }} -> tensor<4x7xf32>
  return %new : tensor<4x7xf32>
}}
"""
BROADCAST = """
  %v0 = linalg.generic {indexing_maps = [#rows, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4xf32>) outs(%empty : tensor<4x7xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
  } -> tensor<4x7xf32>
"""
DOUBLED = """
  %v{after} = linalg.generic {{indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]}}
      ins(%{before}, %{before} : tensor<4x7xf32>, tensor<4x7xf32>) outs(%empty : tensor<4x7xf32>) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  }} -> tensor<4x7xf32>
"""


def _padded(first: str, name: str, length: int) -> str:
    chain = "".join(DOUBLED.format(before=name if i == 0 else f"v{i}", after=i + 1) for i in range(length))
    module = ir.Module.parse(STEP.format(first=first, chain=chain, length=length))
    PadUneven().run(module)
    assert module.operation.verify()
    return str(module)


@pytest.mark.usefixtures("context")
def test_what_has_no_columns_is_computed_with_padded_ones() -> None:
    """In as many questions as there are values, not as there are paths."""
    text = _padded(BROADCAST, "v0", 50)
    assert text.count("arith.addf") == 50
    assert text.count("tensor<4x7xf32>") == 1, "only the argument has no padding"
    assert "tensor.pad" not in text


@pytest.mark.usefixtures("context")
def test_what_has_columns_is_filled_up_with_zeros() -> None:
    """A chain may be longer than Python's stack."""
    text = _padded("", "y", 500)
    assert text.count("arith.addf") == 500
    assert text.count("tensor.pad") == 1
