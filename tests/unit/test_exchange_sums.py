"""Sums that ranks exchange and add are those of the reductions that they replace, on every rank, to the bit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from dmc._mlir import ir
from dmc.analysis.ranks.replicas import verify_replicas
from dmc.dtypes import numpy_type
from dmc.errors import DmcError
from dmc.interpreter import spmd
from dmc.passes.placed.exchange_sums import ExchangeSums

ALL_REDUCE = '"dm.all_reduce"(%x) {{reduction = #dm.reduction<"sum">, accumulate = f32, group = {group}}}'
SCATTER = (
    '"dm.reduce_scatter"(%x) {{dim = {dim} : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = {group}}}'
)
MESH = """"dm.mesh"() {{sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: {dp}, {tp}>,
  device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]}} : () -> ()
"""
STEP = """func.func @step(%x: {given}) -> {made} {{
  %y = {op} : ({given}) -> {made}
  return %y : {made}
}}
"""


@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(
    ("op", "axes", "made", "dim"),
    [
        (ALL_REDUCE, ("dp",), (4, 8), 0),
        (ALL_REDUCE, ("dp", "tp"), (4, 8), 0),
        (SCATTER, ("tp",), (2, 8), 0),
        (SCATTER, ("tp",), (4, 4), 1),
        (SCATTER, ("dp", "tp"), (4, 2), 1),
    ],
)
def test_sums_are_the_same(
    context: Any, element: str, op: str, axes: tuple[str, ...], made: tuple[int, ...], dim: int
) -> None:
    text = _module(op, element, axes, made, dim)
    draw = np.random.default_rng(0)
    scale = draw.choice([1e-2, 1.0, 1e2], size=(4, 4, 8))
    values = (scale * draw.standard_normal((4, 4, 8))).astype(numpy_type(element))
    arguments = [[value] for value in values]
    before = ir.Module.parse(text)
    after = ir.Module.parse(text)
    ExchangeSums(min_bytes=0, machine="h200x4").run(after)
    assert after.operation.verify()
    assert not re.search("dm.all_reduce|dm.reduce_scatter", str(after))
    wanted, found = (spmd.run(each, "step", arguments).results for each in (before, after))
    for (one,), (other,) in zip(wanted, found, strict=True):
        assert one.tobytes() == other.tobytes()


def _module(op: str, element: str, axes: tuple[str, ...], made: tuple[int, ...], dim: int) -> str:
    names = ", ".join(f'"{axis}"' for axis in axes)
    group = f"#dm.group<@mesh, [{names}]>"
    given, result = (f"tensor<{'x'.join(map(str, shape))}x{element}>" for shape in ((4, 8), made))
    step = STEP.format(given=given, made=result, op=op.format(group=group, dim=dim))
    return MESH.format(dp=2, tp=2) + step


REPLICATED = """
#row = affine_map<(i) -> (i)>
#back = affine_map<(i) -> (7 - i)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">,
  links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xbf16> {dm.sharding = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"sum">}>})
    -> (tensor<8xbf16> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[]], {}>}) {
  %o = "dm.permute"(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>,
      group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  %0 = tensor.empty() : tensor<8xbf16>
  %s = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]}
      ins(%x, %o : tensor<8xbf16>, tensor<8xbf16>) outs(%0 : tensor<8xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %c: bf16):
      %d = arith.extf %a : bf16 to f32
      %e = arith.extf %b : bf16 to f32
      %f = arith.addf %d, %e : f32
      %g = arith.truncf %f : f32 to bf16
      linalg.yield %g : bf16
  } -> tensor<8xbf16>
  return %s : tensor<8xbf16>
}
"""


def test_a_sum_of_both_ranks_is_the_same_on_both(context: Any) -> None:
    verify_replicas(ir.Module.parse(REPLICATED))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("arith.addf %d, %e", "arith.subf %d, %e"),
        ("arith.addf %d, %e", "arith.addf %d, %d"),
        ("arith.truncf %f", "arith.truncf %d"),
        ("[[0, 1], [1, 0]]", "[[0, 0], [1, 1]]"),
        ("[#row, #row, #row]", "[#row, #back, #row]"),
        ("extf %b", "extf %c"),
        ("linalg.yield %g", "linalg.yield %a"),
        ('["dp", "tp"], sizes = array<i64: 2, 2>', '["dp", "tp"], sizes = array<i64: 4, 2>'),
        ("ins(%x, %o :", "ins(%o, %o :"),
    ],
)
def test_anything_else_may_differ(context: Any, one: str, other: str) -> None:
    assert one in REPLICATED
    with pytest.raises(DmcError, match="may differ between ranks along dp"):
        verify_replicas(ir.Module.parse(REPLICATED.replace(one, other)))


def test_along_other_axes_it_differs_as_what_is_added_does(context: Any) -> None:
    text = REPLICATED.replace(
        '{dp = #dm.reduction<"sum">}', '{dp = #dm.reduction<"sum">, tp = #dm.reduction<"sum">}', 1
    )
    with pytest.raises(DmcError, match="may differ between ranks along tp,"):
        verify_replicas(ir.Module.parse(text))


def test_a_sum_beside_another_result_is_not_taken_for_one(context: Any) -> None:
    """`%p` is what a rank holds itself."""
    text = REPLICATED.replace("%s = linalg.generic", "%s, %p = linalg.generic").replace(
        "[#row, #row, #row]", "[#row] * 3"
    )
    text = text.replace("[#row] * 3", "[#row, #row, #row]").replace(
        "ins(%x, %o : tensor<8xbf16>, tensor<8xbf16>)", "ins(%x : tensor<8xbf16>)"
    )
    text = text.replace("outs(%0 : tensor<8xbf16>)", "outs(%o, %0 : tensor<8xbf16>, tensor<8xbf16>)")
    text = text.replace("linalg.yield %g : bf16", "linalg.yield %g, %a : bf16, bf16").replace(
        "} -> tensor<8xbf16>", "} -> (tensor<8xbf16>, tensor<8xbf16>)"
    )
    with pytest.raises(DmcError, match="may differ between ranks along dp"):
        verify_replicas(ir.Module.parse(text.replace("return %s", "return %p")))
