"""What the ledger says of a step is what its collectives send while it runs; and a step tells its ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dmc
from dmc._mlir import ir
from dmc.cli.main import main
from dmc.interpreter import spmd
from dmc.lowering.ledger import movements_of
from dmc.mesh import Mesh
from dmc.program.movements import Entry, Total
from dmc.runtime import Ledger, Step
from dmc.runtime.files.artifact import Artifact
from tests.linear_step import artifact
from tests.random_collectives import mesh_text, program, random_arguments


@pytest.mark.parametrize("mesh", [Mesh(x=2), Mesh(x=2, y=2)], ids=repr)
def test_random_programs(context: Any, mesh: Mesh) -> None:
    text, arguments = program(mesh, seed=5, count=14), random_arguments(mesh, seed=5)
    ledger = movements_of(ir.Module.parse(text))
    assert ledger.bytes > 0
    assert spmd.run(ir.Module.parse(text), "step", arguments).bytes == ledger.bytes
    assert sum(ledger.ranks) == sum(ledger.by_kind().values()) == sum(ledger.by_axes().values()) == ledger.bytes


SUM = 'reduction = #dm.reduction<"sum">, accumulate = f32'
# Rounds 1, 3, 5 of the outer loop, each with four of the inner; the third loop has none.
LOOPS = f"""
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %six = arith.constant 6 : index
  %y = scf.for %i = %one to %six step %two iter_args(%a = %x) -> tensor<4xf32> {{
    %z = scf.for %j = %two to %six step %one iter_args(%b = %a) -> tensor<4xf32> {{
      %s = "dm.all_reduce"(%b) {{{SUM}, group = #dm.group<@mesh, ["x"]>}} : (tensor<4xf32>) -> tensor<4xf32>
      scf.yield %s : tensor<4xf32>
    }}
    %g = "dm.all_gather"(%z) {{dim = 0 : i64, group = #dm.group<@mesh, ["x"]>}} : (tensor<4xf32>) -> tensor<8xf32>
    %h = tensor.extract_slice %g[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
    scf.yield %h : tensor<4xf32>
  }}
  %w = scf.for %i = %six to %one step %one iter_args(%a = %y) -> tensor<4xf32> {{
    %s = "dm.all_reduce"(%a) {{{SUM}, group = #dm.group<@mesh, ["x"]>}} : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }}
  return %w : tensor<4xf32>
}}
"""


def test_loops_count_every_round(context: Any) -> None:
    mesh = Mesh(x=2)
    text = mesh_text(mesh) + LOOPS
    ledger = movements_of(ir.Module.parse(text))
    # 16 B: 2·(n-1)·16 twelve times, 2·(n-1)·16 (each sends its own to the other) three times, and never.
    assert [entry.bytes for entry in ledger.entries] == [12 * 32, 3 * 32, 0]
    assert spmd.run(ir.Module.parse(text), "step", [[np.ones(4, np.float32)]] * 2).bytes == 15 * 32


class Pair(nn.Module):
    """Two layers: f32[batch, 8] → f32[batch, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 4)
        self.down = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 8] → f32[batch, 2]."""
        return self.down(torch.tanh(self.up(x)))


def _compiled(**options: Any) -> dmc.CompiledStep:
    example = (torch.zeros(64, 8), torch.zeros(64, 2))
    return dmc.compile(Pair(), loss=nn.functional.mse_loss, optimizer=dmc.optim.SGD(lr=0.1), example=example, **options)


def test_what_was_compiled_for_a_mesh_keeps_its_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mesh = dmc.Mesh(dp=2)
    step = _compiled(mesh=mesh, plan=dmc.plan(mesh).data_parallel("dp"))
    step.save(tmp_path / "pair.dmc")
    step.close()
    # 4·8 + 4 + 2·4 + 2 parameters of 4 B, and the loss and whether it is finite: all-reduces among two send 2(n-1)T.
    parameters, scalar = 2 * 46 * 4, 2 * 4
    ledger = Artifact.read(tmp_path / "pair.dmc").ledger
    scalars = [entry.bytes for entry in ledger.entries if entry.shape == ()]
    assert ledger.mesh == {"dp": 2}
    assert ledger.by_kind() == {"all_reduce": parameters + sum(scalars)}
    assert set(scalars) == {scalar}
    assert ledger.bounded() == {("dp",): Total(parameters, parameters)}
    assert main(["ledger", str(tmp_path / "pair.dmc")]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"mesh dp=2: {ledger.bytes} B in one step")
    assert 'data_parallel("dp")' in out
    for name, shape in (("up.weight", "f32[4, 8]"), ("down.bias", "f32[2]")):
        assert any(f"gradient of {name} " in line and shape in line for line in out.splitlines())


def test_a_step_of_one_rank_has_an_empty_one() -> None:
    step = _compiled()
    assert step.ledger() == Ledger()
    assert step.ledger().table() == "one rank: nothing is sent"
    step.close()


def test_a_snapshot_keeps_the_ledger() -> None:
    ledger = Ledger({"dp": 2}, (Entry("all_reduce", "weight", "f32", (3, 2), ("dp",), 2, 48),), (24, 24))
    step = Step(replace(artifact(), ledger=ledger))
    assert step.ledger() == step.snapshot().ledger == ledger
    step.close()
