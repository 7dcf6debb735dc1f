"""Linked ranks, run by IREE, compute what the interpreter of `dm` does, and train as one rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmc import pipeline
from dmc._mlir import ir
from dmc.interpreter import spmd
from dmc.mesh import Mesh
from dmc.passes.link_ranks import LinkRanks
from dmc.step_function import ARENA, Port, arguments, find_step, results
from tests.job import Job
from tests.random_collectives import mesh_text, program, random_arguments

Array = NDArray[Any]
MESHES = (Mesh(x=2), Mesh(x=4), Mesh(x=2, y=2))


def _run(text: str, mesh: Mesh, arguments: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Links `text` and runs it with `arguments[rank]`; what each rank returns."""
    module = ir.Module.parse(text)
    LinkRanks().run(module)
    module.operation.verify()
    count = len(find_step(module).type.results)
    flat = Job(module)([array for own in arguments for array in own], count)
    each = count // mesh.size
    return [flat[rank * each : (rank + 1) * each] for rank in mesh.ranks]


def _assert_same_bits(actual: Array, expected: Array, what: str) -> None:
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes(), f"{what}: not the same bits"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_random_programs(context: Any, mesh: Mesh, seed: int) -> None:
    text, arguments = program(mesh, seed, count=28), random_arguments(mesh, seed)
    expected = spmd.run(ir.Module.parse(text), "step", arguments).results
    actual = _run(text, mesh, arguments)
    lines = [line for line in text.splitlines() if "%v" in line and "group" in line]
    for rank in mesh.ranks:
        for line, result, wanted in zip(lines, actual[rank], expected[rank], strict=True):
            _assert_same_bits(result, wanted, f"rank {rank}: {line}")


def test_a_loop_turns_for_all_ranks(context: Any) -> None:
    mesh = Mesh(x=2)
    text = f"""{mesh_text(mesh)}
    func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %three = arith.constant 3 : index
      %y = scf.for %i = %zero to %three step %one iter_args(%a = %x) -> tensor<4xf32> {{
        %s = "dm.all_reduce"(%a) {{{SUM}, accumulate = f32, {GROUP}}} : (tensor<4xf32>) -> tensor<4xf32>
        %t = arith.addf %s, %x : tensor<4xf32>
        scf.yield %t : tensor<4xf32>
      }}
      return %y : tensor<4xf32>
    }}"""
    start = [np.arange(4, dtype=np.float32), np.full(4, 0.5, np.float32)]
    expected = start
    for _ in range(3):
        expected = [sum(expected) + own for own in start]
    actual = _run(text, mesh, [[own] for own in start])
    for (result,), wanted in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


ROWS, WIDTH, OUT = 8, 4, 2
SUM, GROUP = 'reduction = #dm.reduction<"sum">', 'group = #dm.group<@mesh, ["x"]>'
GATHER = f'%full = "dm.all_gather"(%w) {{dim = 0 : i64, {GROUP}}} : (P) -> W'
SCATTER = f'%r = "dm.reduce_scatter"(%g) {{dim = 0 : i64, {SUM}, accumulate = f32, {GROUP}}} : (W) -> P'
REDUCE = f'%r = "dm.all_reduce"(%g) {{{SUM}, accumulate = f32, {GROUP}}} : (W) -> W'
REDUCE_LOSS = f'%loss = "dm.all_reduce"(%part) {{{SUM}, accumulate = f32, {GROUP}}} : (tensor<f32>) -> tensor<f32>'
# Loss: the mean of the squares of x w - y over all rows of all ranks, here the local part of it.
# P: what a rank keeps of the weight; W: the whole.
STEP = """
#all = affine_map<(i, j) -> (i, j)>
#none = affine_map<(i, j) -> ()>
func.func @step(%w: P {dm.name = "w", dm.role = "parameter"}, %x: X {dm.name = "x", dm.role = "batch"},
    %y: Y {dm.name = "y", dm.role = "batch"}) -> (P {dm.name = "w"}, tensor<f32> {dm.name = "loss"}) {
  GATHER
  %zero = arith.constant 0.0 : f32
  %ey = tensor.empty() : Y
  %fy = linalg.fill ins(%zero : f32) outs(%ey : Y) -> Y
  %pred = linalg.matmul ins(%x, %full : X, W) outs(%fy : Y) -> Y
  %err = arith.subf %pred, %y : Y
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %part = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction", "reduction"]}
      ins(%err : Y) outs(%f : tensor<f32>) {
    ^bb0(%d0: f32, %acc: f32):
      %eighth = arith.constant 0.125 : f32
      %sq = arith.mulf %d0, %d0 : f32
      %scaled = arith.mulf %sq, %eighth : f32
      %s = arith.addf %acc, %scaled : f32
      linalg.yield %s : f32
  } -> tensor<f32>
  %ew = tensor.empty() : W
  %fw = linalg.fill ins(%zero : f32) outs(%ew : W) -> W
  %g = linalg.generic {indexing_maps = [affine_map<(k, j, i) -> (i, k)>, affine_map<(k, j, i) -> (i, j)>,
      affine_map<(k, j, i) -> (k, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %err : X, Y) outs(%fw : W) {
    ^bb0(%xv: f32, %ev: f32, %acc: f32):
      %p = arith.mulf %xv, %ev : f32
      %s = arith.addf %acc, %p : f32
      linalg.yield %s : f32
  } -> W
  REDUCE
  %new = "dm.composite"(%w, %r, %loss) {kind = "optimizer_update_sgd", decomposition = @sgd, parameters = {}}
    : (P, P, tensor<f32>) -> P
  return %new, %loss : P, tensor<f32>
}
// The new weight; the old one where the loss is no number.
func.func private @sgd(%w: P, %g: P, %loss: tensor<f32>) -> P {
  %e = tensor.empty() : P
  %new = linalg.generic {indexing_maps = [#all, #all, #none, #all], iterator_types = ["parallel", "parallel"]}
      ins(%w, %g, %loss : P, P, tensor<f32>) outs(%e : P) {
    ^bb0(%wv: f32, %gv: f32, %l: f32, %o: f32):
      %rate = arith.constant 0.25 : f32
      %step = arith.mulf %gv, %rate : f32
      %moved = arith.subf %wv, %step : f32
      %ok = arith.cmpf ord, %l, %l : f32
      %kept = arith.select %ok, %moved, %wv : f32
      linalg.yield %kept : f32
  } -> P
  return %new : P
}
"""


def _step(mesh: Mesh, is_sharded: bool) -> ir.Module:
    """`STEP` for each rank of `mesh`, with its share of the rows, and of the weight if that is sharded; linked."""
    gather, reduce = (GATHER, f"{SCATTER}\n{REDUCE_LOSS}") if is_sharded else ("", f"{REDUCE}\n{REDUCE_LOSS}")
    text = STEP.replace("GATHER", gather).replace("REDUCE", reduce)
    part = WIDTH // mesh.size if is_sharded else WIDTH
    rows = ROWS // mesh.size
    types = {"P": (part, OUT), "W": (WIDTH, OUT), "X": (rows, WIDTH), "Y": (rows, OUT)}
    text = re.sub(r"\b[PWXY]\b", lambda m: f"tensor<{'x'.join(map(str, types[m[0]]))}xf32>", text)
    module = ir.Module.parse(f"{mesh_text(mesh)}\n{text if is_sharded else text.replace('%full', '%w')}")
    LinkRanks(order="port").run(module)
    pipeline.run(module, to_form="lowered")
    return module


def _train(mesh: Mesh, is_sharded: bool, steps: int) -> list[list[dict[str, Array]]]:
    """What each rank has after each step: weight and loss. On data whose products and sums are exact in fp32."""
    module, random = _step(mesh, is_sharded), np.random.default_rng(0)
    job, inputs, outputs = Job(module), arguments(find_step(module)), results(find_step(module))
    weight = random.integers(-2, 3, (WIDTH, OUT)).astype(np.float32)
    weights = np.split(weight, mesh.size) if is_sharded else [weight] * mesh.size
    values = {f"w@{rank}": weights[rank] for rank in mesh.ranks}
    after: list[list[dict[str, Array]]] = []
    for _ in range(steps):
        for name, size in (("x", WIDTH), ("y", OUT)):
            data = random.integers(-1, 2, (ROWS, size)).astype(np.float32)
            values |= {f"{name}@{rank}": part for rank, part in enumerate(np.split(data, mesh.size))}
        got = job([values[port.name] if port.role != ARENA else _pack(port, values) for port in inputs], len(outputs))
        for port, array in zip(outputs, got, strict=True):
            arena = next((each for each in inputs if each.name == port.name), None)
            values |= {port.name: array} if arena is None else _unpack(arena, array, values)
        after.append([{"w": values[f"w@{rank}"], "loss": values[f"loss@{rank}"]} for rank in mesh.ranks])
    return after


def _pack(arena: Port, values: dict[str, Array]) -> Array:
    """What an arena holds; its members, where they are arguments too, may be copies, for a step writes arenas only."""
    flat = np.zeros(arena.type.shape, np.float32)
    for name, offset in arena.members.items():
        flat[offset : offset + values[name].size] = values[name].reshape(-1)
    return flat


def _unpack(arena: Port, flat: Array, values: dict[str, Array]) -> dict[str, Array]:
    return {
        name: flat[offset : offset + values[name].size].reshape(values[name].shape)
        for name, offset in arena.members.items()
    }


@pytest.mark.parametrize("is_sharded", [False, True], ids=["replicated", "sharded"])
@pytest.mark.parametrize("mesh", [Mesh(x=2), Mesh(x=4)], ids=repr)
def test_ranks_train_as_one(context: Any, mesh: Mesh, is_sharded: bool) -> None:
    many, single = _train(mesh, is_sharded, steps=3), _train(Mesh(x=1), False, steps=3)
    for ranks, (one,) in zip(many, single, strict=True):
        weights = [rank["w"] for rank in ranks]
        for weight in [np.concatenate(weights)] if is_sharded else weights:
            np.testing.assert_array_equal(weight, one["w"])
        for rank in ranks:
            np.testing.assert_array_equal(rank["loss"], one["loss"])
    assert single[-1][0]["loss"] < single[0][0]["loss"]
