"""Sums that many products give are rounded before they move, however many there are."""

from __future__ import annotations

import pytest

from dmc._mlir import ir
from dmc.passes.placed.narrow_collectives import NarrowCollectives

HEAD = """
#same = affine_map<(i) -> (i)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<32768xbf16>) -> tensor<32768xf32> {
  %e = tensor.empty() : tensor<32768xf32>
  %s0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]}
      ins(%x : tensor<32768xbf16>) outs(%e : tensor<32768xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %b = arith.extf %a : bf16 to f32
    linalg.yield %b : f32
  } -> tensor<32768xf32>
"""
SUM = """
  %sNEW = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]}
      ins(%sOLD, %s0 : tensor<32768xf32>, tensor<32768xf32>) outs(%e : tensor<32768xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<32768xf32>
"""
TAIL = """
  %y = "dm.all_reduce"(%sLAST) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
      : (tensor<32768xf32>) -> tensor<32768xf32>
  return %y : tensor<32768xf32>
}
"""


@pytest.mark.usefixtures("context")
def test_a_weight_may_be_used_many_times() -> None:
    uses = 1500
    sums = [SUM.replace("NEW", str(i)).replace("OLD", str(i - 1)) for i in range(1, uses)]
    module = ir.Module.parse("".join((HEAD, *sums, TAIL.replace("LAST", str(uses - 1)))))
    NarrowCollectives().run(module)
    (moved,) = [line for line in str(module).splitlines() if "dm.all_reduce" in line]
    assert "(tensor<32768xbf16>) -> tensor<32768xbf16>" in moved
