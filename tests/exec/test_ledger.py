"""What the ledger says of a step is what its collectives send while it runs; and a step tells its ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmc._mlir import ir
from dmc.lowering.ledger import ledger_of
from dmc.mesh import Mesh
from dmc.passes.count_traffic import CountTraffic
from dmc.passes.link_ranks import LinkRanks
from dmc.runtime import Ledger, Step
from dmc.runtime.ledger import Entry
from dmc.step_function import find_step
from tests import spmd
from tests.job import Job
from tests.linear_step import artifact
from tests.random_collectives import mesh_text, program, random_arguments

Array = NDArray[Any]


def _counted(text: str, mesh: Mesh, arguments: list[list[Array]]) -> list[int]:
    """The bytes that `text`, linked and run by IREE, counts; one count from each rank."""
    module = ir.Module.parse(text)
    CountTraffic().run(module)
    LinkRanks(order="port").run(module)
    module.operation.verify()
    flat = [own[i] for i in range(len(arguments[0])) for own in arguments]
    results = Job(module)(flat, len(find_step(module).type.results))
    return [int(result) for result in results[-mesh.size :]]


@pytest.mark.parametrize("mesh", [Mesh(x=2), Mesh(x=2, y=2)], ids=repr)
def test_random_programs(context: Any, mesh: Mesh) -> None:
    text, arguments = program(mesh, seed=5, count=14), random_arguments(mesh, seed=5)
    ledger = ledger_of(ir.Module.parse(text))
    assert ledger.bytes > 0
    assert _counted(text, mesh, arguments) == [ledger.bytes] * mesh.size
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
    ledger = ledger_of(ir.Module.parse(text))
    # 16 B: 2·(n-1)·16 twelve times, 2·(n-1)·16 (each sends its own to the other) three times, and never.
    assert [entry.bytes for entry in ledger.entries] == [12 * 32, 3 * 32, 0]
    assert _counted(text, mesh, [[np.ones(4, np.float32)]] * 2) == [15 * 32] * 2


LEDGER = Ledger({"dp": 2}, (Entry("all_reduce", "weight", "f32", (3, 2), ("dp",), 2, 48),), (24, 24))


def test_a_step_tells_its_ledger() -> None:
    step = Step(replace(artifact(), ledger=LEDGER))
    assert step.ledger() == step.snapshot().ledger == LEDGER
    step.close()


def test_a_step_of_one_rank_has_an_empty_one() -> None:
    step = Step(artifact())
    assert step.ledger() == Ledger()
    assert step.ledger().table() == "one rank: nothing is sent"
    step.close()
