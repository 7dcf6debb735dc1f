"""From the program of one rank to its ledger; numbers by hand."""

from __future__ import annotations

from typing import Any

import pytest

import dmc
from dmc._mlir import ir
from dmc.errors import DmcError
from dmc.lowering.ledger import movements_of
from dmc.mesh import Mesh
from dmc.passes.placed.fold_collectives import FoldCollectives
from dmc.passes.placed.lower_reshard import LowerReshard
from dmc.plans import Plan, ResolvedPlan, resolve
from dmc.program.movements import Bound, Entry, Movements, Total
from dmc.program.signature import StateSpec
from tests.random_collectives import mesh_text

ROWS, FREE, SUM = '[["dp"], []], {}', "[[], []], {}", '[[], []], {dp = #dm.reduction<"sum">}'
WHY = 'dm.why = "asked for"'


def _reshard(given: str, source: str, target: str, types: str, label: str) -> str:
    ends = f"source = #dm.sharding<@mesh, {source}>, target = #dm.sharding<@mesh, {target}>"
    return f'"dm.reshard"({given}) {{{label}, {ends}}} : {types}'


def _step(mesh: Mesh, body: str, stored: str = "tensor<8x6xf32>") -> ir.Module:
    """`@step(%w, %g)` with a weight as it is stored and its partial gradient."""
    text = f"""{mesh_text(mesh)}
    func.func @step(%w: {stored} {{dm.name = "w", dm.role = "parameter"}}, %g: tensor<8x6xf32>)
        -> ({stored} {{dm.name = "w"}}) {{
      {body}
    }}"""
    return ir.Module.parse(text)


def _lowered(module: ir.Module) -> ir.Module:
    for element in (LowerReshard(), FoldCollectives()):
        element.run(module)
    return module


def _plan(plan: Plan) -> ResolvedPlan:
    return resolve(plan, [StateSpec("w", "f32", (8, 6))], [], [])


GRADIENT = f'dm.tensor = "gradient of w", {WHY}'
WEIGHT = f'dm.tensor = "w", {WHY}'
REPLICATED = f"""
    %r = {_reshard("%g", SUM, FREE, "(tensor<8x6xf32>) -> tensor<8x6xf32>", GRADIENT)}
    %n = arith.subf %w, %r : tensor<8x6xf32>
    return %n : tensor<8x6xf32>"""
ZERO2 = f"""
    %r = {_reshard("%g", SUM, ROWS, "(tensor<8x6xf32>) -> tensor<2x6xf32>", GRADIENT)}
    %own = {_reshard("%w", FREE, ROWS, "(tensor<8x6xf32>) -> tensor<2x6xf32>", WEIGHT)}
    %n = arith.subf %own, %r : tensor<2x6xf32>
    %new = {_reshard("%n", ROWS, FREE, "(tensor<2x6xf32>) -> tensor<8x6xf32>", WEIGHT)}
    return %new : tensor<8x6xf32>"""
ZERO3 = f"""
    %used = {_reshard("%w", ROWS, FREE, "(tensor<2x6xf32>) -> tensor<8x6xf32>", WEIGHT)}
    %p = arith.mulf %used, %g : tensor<8x6xf32>
    %r = {_reshard("%p", SUM, ROWS, "(tensor<8x6xf32>) -> tensor<2x6xf32>", GRADIENT)}
    %n = arith.subf %w, %r : tensor<2x6xf32>
    return %n : tensor<2x6xf32>"""
# T = 8 · 6 · 4 B, n = 4 ranks.
T, N = 192, 4
WAYS = {
    "replicated": (0, REPLICATED, "tensor<8x6xf32>", [("all_reduce", "gradient of w", 2 * (N - 1) * T)]),
    "zero2": (
        2,
        ZERO2,
        "tensor<8x6xf32>",
        [("reduce_scatter", "gradient of w", (N - 1) * T), ("all_gather", "w", (N - 1) * T)],
    ),
    "zero3": (
        3,
        ZERO3,
        "tensor<2x6xf32>",
        [("all_gather", "w", (N - 1) * T), ("reduce_scatter", "gradient of w", (N - 1) * T)],
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_data_parallel_sends_the_least(context: Any, name: str) -> None:
    zero, body, stored, expected = WAYS[name]
    mesh = Mesh(dp=4)
    plan = _plan(dmc.plan(mesh).data_parallel("dp", zero=zero))
    module = _lowered(_step(mesh, body, stored))
    ledger = movements_of(module, plan)
    assert [(entry.kind, entry.tensor, entry.bytes) for entry in ledger.entries] == expected
    # The rule of the plan says more than the label; without a plan the label says it.
    assert {entry.why for entry in ledger.entries} == {f'data_parallel("dp"{f", zero={zero}" if zero else ""})'}
    assert {entry.why for entry in movements_of(module).entries} == {"asked for"}
    assert ledger.bounds == (Bound("w", ("dp",), 2 * (N - 1) * T),)
    assert ledger.bounded()["dp",] == Total(2 * (N - 1) * T, 2 * (N - 1) * T)
    # Each rank sends 2(n-1)/n·T.
    assert ledger.ranks == (2 * (N - 1) * T // N,) * 4


def test_gathering_twice_is_half_as_much_again(context: Any) -> None:
    gather = "(tensor<2x6xf32>) -> tensor<8x6xf32>"
    # Backward gathers what forward had not kept, so that folding does not see that the two are one.
    body = f"""
      %first = {_reshard("%w", ROWS, FREE, gather, WEIGHT)}
      %h = arith.mulf %first, %g : tensor<8x6xf32>
      %forgotten = arith.addf %w, %w : tensor<2x6xf32>
      %second = {_reshard("%forgotten", ROWS, FREE, gather, WEIGHT)}
      %p = arith.mulf %second, %h : tensor<8x6xf32>
      %r = {_reshard("%p", SUM, ROWS, "(tensor<8x6xf32>) -> tensor<2x6xf32>", GRADIENT)}
      return %r : tensor<2x6xf32>"""
    plan = _plan(dmc.plan(Mesh(dp=4)).data_parallel("dp", zero=3))
    ledger = movements_of(_lowered(_step(Mesh(dp=4), body, "tensor<2x6xf32>")), plan)
    assert [total.ratio for total in ledger.totals.values()] == [1.5]


def test_a_split_tensor_is_reduced_as_each_rank_uses_it(context: Any) -> None:
    mesh = Mesh(dp=2, tp=2)
    plan = _plan(dmc.plan(mesh).shard("w", dim=1, axis="tp").data_parallel("dp"))
    module = _step(mesh, "return %w : tensor<8x3xf32>", "tensor<8x3xf32>")
    # Two groups of two, each for half of the tensor.
    assert movements_of(module, plan).bounds == (Bound("w", ("dp",), 2 * 2 * (2 - 1) * T // 2),)


def test_a_tensor_is_bounded_in_the_narrowest_type_it_is_moved_in(context: Any) -> None:
    body = f"""
      %h = arith.truncf %g : tensor<8x6xf32> to tensor<8x6xbf16>
      %r = {_reshard("%h", SUM, FREE, "(tensor<8x6xbf16>) -> tensor<8x6xbf16>", GRADIENT)}
      %f = arith.extf %r : tensor<8x6xbf16> to tensor<8x6xf32>
      return %f : tensor<8x6xf32>"""
    ledger = movements_of(_lowered(_step(Mesh(dp=4), body)), _plan(dmc.plan(Mesh(dp=4)).data_parallel("dp")))
    assert list(ledger.totals.values()) == [Total((N - 1) * T, (N - 1) * T)]
    assert ledger.entries[0].dtype == "bf16"


def test_one_rank_along_the_axis_of_data_needs_nothing(context: Any) -> None:
    mesh = Mesh(dp=1, tp=2)
    plan = _plan(dmc.plan(mesh).data_parallel("dp"))
    assert movements_of(_step(mesh, "return %w : tensor<8x6xf32>"), plan).bounds == ()


LOOP = """
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %end = arith.constant 5 : index
    %y = scf.for %i = %zero to %end step %one iter_args(%c = %w) -> tensor<8x6xf32> {
      %r = "dm.all_reduce"(%c) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
          : (tensor<8x6xf32>) -> tensor<8x6xf32> loc("h.0.mlp#aten.addmm"("gpt.py":12:0))
      scf.yield %r : tensor<8x6xf32>
    }
    %s = "dm.all_reduce"(%y)
        {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>}
        : (tensor<8x6xf32>) -> tensor<8x6xf32> loc(fused[unknown, "h.1#dmc.gelu"])
    %b = "dm.broadcast"(%s) {root = 1 : i64, group = #dm.group<@mesh, ["tp"]>}
        : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %b : tensor<8x6xf32>"""


def test_activations_are_named_by_their_place(context: Any) -> None:
    first, second, third = (ledger := movements_of(_step(Mesh(dp=2, tp=2), LOOP))).entries
    f32 = ("f32", (8, 6))
    # Five rounds in each of two groups of two; then one group of four.
    place = "h.0.mlp#aten.addmm (gpt.py:12)"
    assert first == Entry("all_reduce", "h.0.mlp", *f32, ("dp",), 2, 5 * 2 * 2 * T, "", place, "h.0.mlp")
    assert second == Entry("all_reduce", "h.1", *f32, ("dp", "tp"), 4, 2 * 3 * T, "", "h.1#dmc.gelu", "h.1")
    assert (third.kind, third.tensor, third.bytes) == ("broadcast", "", 2 * T)
    assert ledger.bounds == ()
    # Of each group the second sends the broadcast.
    assert ledger.ranks == tuple(5 * T + 2 * 3 * T // 4 + own for own in (0, T, 0, T))
    assert sum(ledger.ranks) == ledger.bytes


def test_a_step_without_a_mesh_moves_nothing(context: Any) -> None:
    assert movements_of(ir.Module.parse("func.func @step() { return }")) == Movements()


def test_what_does_not_fit_is_refused(context: Any) -> None:
    with pytest.raises(DmcError, match=r"is for Mesh\(dp=4\), but the plan is for Mesh\(dp=2\)"):
        movements_of(_step(Mesh(dp=4), REPLICATED), _plan(dmc.plan(Mesh(dp=2)).data_parallel("dp")))
    two = mesh_text(Mesh(dp=4)) + mesh_text(Mesh(dp=4)).replace('"mesh"', '"other"')
    with pytest.raises(DmcError, match="has 2 meshes"):
        movements_of(ir.Module.parse(two))


def test_a_bucket_has_an_entry_for_each_member(context: Any) -> None:
    """Two gradients that four ranks exchange in one buffer, add, and gather."""
    label = 'dm.tensor = "gradient of w; gradient of v", dm.why = "a; b"'
    group = 'group = #dm.group<@mesh, ["dp"]>'
    body = f"""
      %v = tensor.empty() : tensor<16xf32>
      %p = "dm.pack"(%g, %v) {{offsets = array<i64: 0, 48>}} : (tensor<8x6xf32>, tensor<16xf32>) -> tensor<64xf32>
      %m = "dm.all_to_all"(%p) {{split_dim = 0 : i64, concat_dim = 0 : i64, {label}, {group}}}
          : (tensor<64xf32>) -> tensor<64xf32> loc(fused["one#a"("a.py":1:0), "other#b"("b.py":2:0)])
      %s = tensor.extract_slice %m[16] [16] [1] : tensor<64xf32> to tensor<16xf32>
      %a = "dm.all_gather"(%s) {{dim = 0 : i64, {label}, {group}}} : (tensor<16xf32>) -> tensor<64xf32>
      %u:2 = "dm.unpack"(%a) {{offsets = array<i64: 0, 48>}} : (tensor<64xf32>) -> (tensor<8x6xf32>, tensor<16xf32>)
      return %u#0 : tensor<8x6xf32>"""
    ledger = movements_of(_step(Mesh(dp=4), body))
    assert [(each.kind, each.tensor, each.shape, each.bytes) for each in ledger.entries] == [
        ("all_to_all", "gradient of w", (8, 6), (N - 1) * T),
        ("all_to_all", "gradient of v", (16,), (N - 1) * 64),
        ("all_gather", "gradient of w", (12,), (N - 1) * T),
        ("all_gather", "gradient of v", (4,), (N - 1) * 64),
    ]
    assert ledger.ranks == ((N - 1) * 2 * (T + 64) // N,) * N
    places = [each.place for each in ledger.entries[:2]]
    assert "one#a" in places[0] and "a.py:1" in places[0] and "other#b" in places[1] and "b.py:2" in places[1]


def test_an_empty_tensor_is_no_bucket(context: Any) -> None:
    body = """
      %e = tensor.empty() : tensor<0x4xf32>
      %r = "dm.all_reduce"(%e) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
          : (tensor<0x4xf32>) -> tensor<0x4xf32>
      return %g : tensor<8x6xf32>"""
    assert [each.bytes for each in movements_of(_step(Mesh(dp=4), body)).entries] == [0]
