"""Bytes from rank to rank: by hand, and as the interpreter of `dm` sends them."""

from __future__ import annotations

from typing import Any

import pytest

from dmc._mlir import ir
from dmc.analysis.ranks.traffic import Movement, traffic
from dmc.errors import DmcError
from dmc.interpreter import spmd
from dmc.mesh import Mesh
from tests.random_collectives import mesh_text, program, random_arguments

GROUP = 'group = #dm.group<@mesh, ["x"]>'
SUM = '{reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["x"]>}'


def _movements(body: str, mesh: Mesh) -> list[Movement]:
    return traffic(
        ir.Module.parse(f"{mesh_text(mesh)}\nfunc.func @step(%x: tensor<2x8xf32>, %n: index) {{\n{body}\n}}")
    )


@pytest.mark.parametrize("mesh", [Mesh(x=1), Mesh(x=2), Mesh(x=3), Mesh(x=2, y=2), Mesh(x=2, y=3)], ids=repr)
def test_sums_are_those_of_the_interpreter(context: Any, mesh: Mesh) -> None:
    module = ir.Module.parse(program(mesh, seed=3, count=60))
    sent = spmd.run(module, "step", random_arguments(mesh, seed=3)).bytes
    assert sum(movement.bytes for movement in traffic(module)) == sent


@pytest.mark.parametrize(
    ("op", "sent"),
    [
        (f'"dm.all_gather"(%x) {{dim = 0 : i64, {GROUP}}} : (tensor<2x8xf32>) -> tensor<4x8xf32>', (64, 64)),
        (f'"dm.all_to_all"(%x) {{split_dim = 1 : i64, concat_dim = 0 : i64, {GROUP}}} : '
         "(tensor<2x8xf32>) -> tensor<4x4xf32>", (32, 32)),
        (f'"dm.all_reduce"(%x) {SUM} : (tensor<2x8xf32>) -> tensor<2x8xf32>', (64, 64)),
        (f'"dm.broadcast"(%x) {{root = 1 : i64, {GROUP}}} : (tensor<2x8xf32>) -> tensor<2x8xf32>', (0, 64)),
        (f'"dm.permute"(%x) {{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, {GROUP}}} : '
         "(tensor<2x8xf32>) -> tensor<2x8xf32>", (64, 0)),
        (f'"dm.permute"(%x) {{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>, {GROUP}}} : '
         "(tensor<2x8xf32>) -> tensor<2x8xf32>", (0, 0)),
    ],
)  # fmt: skip
def test_pairs_lie_along_the_axis(context: Any, op: str, sent: tuple[int, int]) -> None:
    # Ranks 0 and 2, 1 and 3 differ along x.
    (movement,) = _movements(f"%y = {op}\nreturn", Mesh(x=2, y=2))
    there, back = sent
    expected = {(0, 2): there, (1, 3): there, (2, 0): back, (3, 1): back}
    assert dict(movement.sent) == {pair: size for pair, size in expected.items() if size}
    assert (movement.kind, movement.mesh, movement.axes) == (op.split('"')[1], "mesh", ("x",))


def test_an_all_reduce_that_does_not_divide(context: Any) -> None:
    body = f'%y = "dm.all_reduce"(%x) {SUM} : (tensor<2x8xf32>) -> tensor<2x8xf32>\nreturn'
    (movement,) = _movements(body, Mesh(x=3))
    # Of 16 elements the ranks reduce 6, 5 and 5.
    assert movement.sent[0, 1] == movement.sent[1, 0] == (6 + 5) * 4
    assert movement.sent[1, 2] == movement.sent[2, 1] == (5 + 5) * 4
    assert movement.bytes == 2 * 64 * 2


def test_a_slice_sends_nothing(context: Any) -> None:
    body = f'%y = "dm.all_slice"(%x) {{dim = 0 : i64, {GROUP}}} : (tensor<2x8xf32>) -> tensor<1x8xf32>\nreturn'
    assert _movements(body, Mesh(x=2)) == []


def _loop(upper: str) -> str:
    return f"""
  %zero = arith.constant 1 : index
  %end = arith.constant 8 : index
  %three = arith.constant 3 : index
  scf.for %i = %zero to {upper} step %three {{
    scf.for %j = %zero to %end step %three {{
      %y = "dm.all_reduce"(%x) {SUM} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    }}
  }}
  return"""


def test_loops_count_every_round(context: Any) -> None:
    (movement,) = _movements(_loop("%end"), Mesh(x=2))
    # 1, 4 and 7 are below 8.
    assert movement.bytes == 3 * 3 * 2 * 64


def test_rounds_that_nobody_knows_are_refused(context: Any) -> None:
    with pytest.raises(DmcError, match=r"dm.all_reduce: is in a loop whose trip count is not constant"):
        _movements(_loop("%n"), Mesh(x=2))
