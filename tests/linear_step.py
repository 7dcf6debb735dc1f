"""A small training step written by hand: what the runtime needs, without the compiler in front of it.

`pred = x·weight·scale + bias`, masked squared error against `y + ids`, SGD with momentum 0.9, one learning rate for
weight and one for bias. It has every role of state, a tied name, bf16, i64 and i1 tensors, the guard, and auxiliary
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from dmc.program.movements import Movements
from dmc.program.signature import Signature, StateSpec, TensorSpec
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.step import Step

ROWS, WIDTH, OUT = 4, 3, 2
MOMENTUM = 0.9
RATES = (0.1, 0.05)

SIGNATURE = Signature(
    state=(
        StateSpec("weight", "f32", (WIDTH, OUT), role="parameter"),
        StateSpec("bias", "f32", (OUT,), role="parameter"),
        StateSpec("scale", "bf16", (OUT,), role="frozen", mutated=False, aliases=("head.scale",)),
        StateSpec("seen", "f32", (), role="buffer"),
        StateSpec("weight.momentum", "f32", (WIDTH, OUT), role="optimizer"),
        StateSpec("bias.momentum", "f32", (OUT,), role="optimizer"),
        StateSpec("step", "i64", (), role="counter"),
        StateSpec("seed", "i64", (), role="seed", mutated=False),
    ),
    controls=(TensorSpec("lr", "f32", (2,)), TensorSpec("guard", "i32", ())),
    batch=(
        TensorSpec("x", "f32", (ROWS, WIDTH)),
        TensorSpec("y", "f32", (ROWS, OUT)),
        TensorSpec("ids", "i64", (ROWS,)),
        TensorSpec("mask", "i1", (ROWS,)),
    ),
    outputs=(
        TensorSpec("loss", "f32", ()),
        TensorSpec("finite", "i32", ()),
        TensorSpec("pred", "f32", (ROWS, OUT)),
        TensorSpec("rows", "i64", ()),
    ),
    args={"tuple": [{"leaf": 0}, {"dict": {"y": {"leaf": 1}, "ids": {"leaf": 2}}}]},
    kwargs={"dict": {"mask": {"leaf": 3}, "mean": {"constant": True}}},
    aux={"dict": {"pred": {"leaf": 0}, "more": {"list": [{"leaf": 1}, {"constant": None}]}}},
    learning_rates=RATES,
)

MLIR = """
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>
#none = affine_map<(i, j) -> ()>
#i = affine_map<(i) -> (i)>
#no = affine_map<(i) -> ()>
#s = affine_map<() -> ()>
module {
  func.func @step(
      %w: tensor<3x2xf32> {dm.name = "weight", dm.role = "parameter"},
      %b: tensor<2xf32> {dm.name = "bias", dm.role = "parameter"},
      %scale: tensor<2xbf16> {dm.name = "scale", dm.role = "frozen"},
      %seen: tensor<f32> {dm.name = "seen", dm.role = "buffer"},
      %mw: tensor<3x2xf32> {dm.name = "weight.momentum", dm.role = "optimizer"},
      %mb: tensor<2xf32> {dm.name = "bias.momentum", dm.role = "optimizer"},
      %n: tensor<i64> {dm.name = "step", dm.role = "counter"},
      %seed: tensor<i64> {dm.name = "seed", dm.role = "seed"},
      %lr: tensor<2xf32> {dm.name = "lr", dm.role = "control"},
      %guard: tensor<i32> {dm.name = "guard", dm.role = "control"},
      %x: tensor<4x3xf32> {dm.name = "x", dm.role = "batch"},
      %y: tensor<4x2xf32> {dm.name = "y", dm.role = "batch"},
      %ids: tensor<4xi64> {dm.name = "ids", dm.role = "batch"},
      %mask: tensor<4xi1> {dm.name = "mask", dm.role = "batch"})
      -> (tensor<3x2xf32> {dm.name = "weight"}, tensor<2xf32> {dm.name = "bias"}, tensor<f32> {dm.name = "seen"},
          tensor<3x2xf32> {dm.name = "weight.momentum"}, tensor<2xf32> {dm.name = "bias.momentum"},
          tensor<i64> {dm.name = "step"}, tensor<f32> {dm.name = "loss"}, tensor<i32> {dm.name = "finite"},
          tensor<4x2xf32> {dm.name = "pred"}, tensor<i64> {dm.name = "rows"}) {
    %zero = arith.constant 0.0 : f32
    %zero64 = arith.constant 0 : i64
    %e42 = tensor.empty() : tensor<4x2xf32>
    %e32 = tensor.empty() : tensor<3x2xf32>
    %e2 = tensor.empty() : tensor<2xf32>
    %e0 = tensor.empty() : tensor<f32>
    %ei = tensor.empty() : tensor<i64>
    %e1 = tensor.empty() : tensor<i1>
    %e32i = tensor.empty() : tensor<i32>
    %f42 = linalg.fill ins(%zero : f32) outs(%e42 : tensor<4x2xf32>) -> tensor<4x2xf32>
    %f32 = linalg.fill ins(%zero : f32) outs(%e32 : tensor<3x2xf32>) -> tensor<3x2xf32>
    %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2xf32>) -> tensor<2xf32>
    %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
    %fi = linalg.fill ins(%zero64 : i64) outs(%ei : tensor<i64>) -> tensor<i64>
    %xw = linalg.matmul ins(%x, %w : tensor<4x3xf32>, tensor<3x2xf32>) outs(%f42 : tensor<4x2xf32>) -> tensor<4x2xf32>
    %pred = linalg.generic {indexing_maps = [#all, #col, #col, #all], iterator_types = ["parallel", "parallel"]}
        ins(%xw, %scale, %b : tensor<4x2xf32>, tensor<2xbf16>, tensor<2xf32>) outs(%e42 : tensor<4x2xf32>) {
      ^bb0(%p: f32, %sc: bf16, %bi: f32, %o: f32):
        %wide = arith.extf %sc : bf16 to f32
        %scaled = arith.mulf %p, %wide : f32
        %sum = arith.addf %scaled, %bi : f32
        linalg.yield %sum : f32
    } -> tensor<4x2xf32>
    %err = linalg.generic {indexing_maps = [#all, #all, #row, #row, #all], iterator_types = ["parallel", "parallel"]}
        ins(%pred, %y, %ids, %mask : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xi1>)
        outs(%e42 : tensor<4x2xf32>) {
      ^bb0(%p: f32, %t: f32, %id: i64, %on: i1, %o: f32):
        %idf = arith.sitofp %id : i64 to f32
        %d = arith.subf %p, %t : f32
        %d2 = arith.subf %d, %idf : f32
        %kept = arith.select %on, %d2, %zero : f32
        linalg.yield %kept : f32
    } -> tensor<4x2xf32>
    %loss = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction", "reduction"]}
        ins(%err : tensor<4x2xf32>) outs(%f0 : tensor<f32>) {
      ^bb0(%e: f32, %acc: f32):
        %eighth = arith.constant 0.125 : f32
        %sq = arith.mulf %e, %e : f32
        %part = arith.mulf %sq, %eighth : f32
        %sum = arith.addf %acc, %part : f32
        linalg.yield %sum : f32
    } -> tensor<f32>
    %rows = linalg.generic {indexing_maps = [#i, #no], iterator_types = ["reduction"]}
        ins(%mask : tensor<4xi1>) outs(%fi : tensor<i64>) {
      ^bb0(%on: i1, %acc: i64):
        %one = arith.extui %on : i1 to i64
        %sum = arith.addi %acc, %one : i64
        linalg.yield %sum : i64
    } -> tensor<i64>
    %finite, %ok = linalg.generic {indexing_maps = [#s, #s, #s, #s], iterator_types = []}
        ins(%loss, %guard : tensor<f32>, tensor<i32>) outs(%e32i, %e1 : tensor<i32>, tensor<i1>) {
      ^bb0(%l: f32, %g: i32, %o: i32, %o1: i1):
        %z = arith.subf %l, %l : f32
        %isfinite = arith.cmpf oeq, %z, %zero : f32
        %none = arith.constant 0 : i32
        %unguarded = arith.cmpi eq, %g, %none : i32
        %go = arith.ori %isfinite, %unguarded : i1
        %as32 = arith.extui %isfinite : i1 to i32
        linalg.yield %as32, %go : i32, i1
    } -> (tensor<i32>, tensor<i1>)
    %gw = linalg.generic {
        indexing_maps = [affine_map<(k, j, i) -> (i, k)>, affine_map<(k, j, i) -> (i, j)>,
                         affine_map<(k, j, i) -> (j)>, affine_map<(k, j, i) -> (k, j)>],
        iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %err, %scale : tensor<4x3xf32>, tensor<4x2xf32>, tensor<2xbf16>) outs(%f32 : tensor<3x2xf32>) {
      ^bb0(%xv: f32, %e: f32, %sc: bf16, %acc: f32):
        %quarter = arith.constant 0.25 : f32
        %wide = arith.extf %sc : bf16 to f32
        %a = arith.mulf %xv, %e : f32
        %c = arith.mulf %a, %wide : f32
        %d = arith.mulf %c, %quarter : f32
        %sum = arith.addf %acc, %d : f32
        linalg.yield %sum : f32
    } -> tensor<3x2xf32>
    %gb = linalg.generic {indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>],
        iterator_types = ["parallel", "reduction"]} ins(%err : tensor<4x2xf32>) outs(%f2 : tensor<2xf32>) {
      ^bb0(%e: f32, %acc: f32):
        %quarter = arith.constant 0.25 : f32
        %d = arith.mulf %e, %quarter : f32
        %sum = arith.addf %acc, %d : f32
        linalg.yield %sum : f32
    } -> tensor<2xf32>
    %rw = tensor.extract_slice %lr[0] [1] [1] : tensor<2xf32> to tensor<f32>
    %rb = tensor.extract_slice %lr[1] [1] [1] : tensor<2xf32> to tensor<f32>
    %w1, %mw1 = linalg.generic {indexing_maps = [#all, #all, #all, #none, #none, #all, #all],
        iterator_types = ["parallel", "parallel"]}
        ins(%w, %mw, %gw, %rw, %ok : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<f32>, tensor<i1>)
        outs(%e32, %e32 : tensor<3x2xf32>, tensor<3x2xf32>) {
      ^bb0(%p: f32, %m: f32, %g: f32, %rate: f32, %go: i1, %o: f32, %o1: f32):
        %mu = arith.constant 0.9 : f32
        %m1 = arith.mulf %m, %mu : f32
        %m2 = arith.addf %m1, %g : f32
        %d = arith.mulf %m2, %rate : f32
        %p1 = arith.subf %p, %d : f32
        %pn = arith.select %go, %p1, %p : f32
        %mn = arith.select %go, %m2, %m : f32
        linalg.yield %pn, %mn : f32, f32
    } -> (tensor<3x2xf32>, tensor<3x2xf32>)
    %b1, %mb1 = linalg.generic {indexing_maps = [#i, #i, #i, #no, #no, #i, #i], iterator_types = ["parallel"]}
        ins(%b, %mb, %gb, %rb, %ok : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<i1>)
        outs(%e2, %e2 : tensor<2xf32>, tensor<2xf32>) {
      ^bb0(%p: f32, %m: f32, %g: f32, %rate: f32, %go: i1, %o: f32, %o1: f32):
        %mu = arith.constant 0.9 : f32
        %m1 = arith.mulf %m, %mu : f32
        %m2 = arith.addf %m1, %g : f32
        %d = arith.mulf %m2, %rate : f32
        %p1 = arith.subf %p, %d : f32
        %pn = arith.select %go, %p1, %p : f32
        %mn = arith.select %go, %m2, %m : f32
        linalg.yield %pn, %mn : f32, f32
    } -> (tensor<2xf32>, tensor<2xf32>)
    %seen1, %n1 = linalg.generic {indexing_maps = [#s, #s, #s, #s, #s, #s], iterator_types = []}
        ins(%seen, %n, %rows, %ok : tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>)
        outs(%e0, %ei : tensor<f32>, tensor<i64>) {
      ^bb0(%sv: f32, %nv: i64, %r: i64, %go: i1, %o: f32, %oi: i64):
        %one = arith.constant 1 : i64
        %rf = arith.sitofp %r : i64 to f32
        %s1 = arith.addf %sv, %rf : f32
        %n2 = arith.addi %nv, %one : i64
        %sn = arith.select %go, %s1, %sv : f32
        %nn = arith.select %go, %n2, %nv : i64
        linalg.yield %sn, %nn : f32, i64
    } -> (tensor<f32>, tensor<i64>)
    return %w1, %b1, %seen1, %mw1, %mb1, %n1, %loss, %finite, %pred, %rows
        : tensor<3x2xf32>, tensor<2xf32>, tensor<f32>, tensor<3x2xf32>, tensor<2xf32>, tensor<i64>,
          tensor<f32>, tensor<i32>, tensor<4x2xf32>, tensor<i64>
  }
}
"""


def initial_state() -> tuple[np.ndarray, ...]:
    """Random weights, the rest zero; always the same."""
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((WIDTH, OUT), np.float32),
        rng.standard_normal((OUT,), np.float32),
        np.array([1.5, -0.75], ml_dtypes.bfloat16),
        np.zeros((), np.float32),
        np.zeros((WIDTH, OUT), np.float32),
        np.zeros((OUT,), np.float32),
        np.zeros((), np.int64),
        np.array(7, np.int64),
    )


def built(text: str, signature: Signature, state: tuple[np.ndarray, ...]) -> Artifact:
    """A step given in form imported as the compiler delivers it."""
    from dmc import dialect
    from dmc._mlir import ir
    from dmc.executors import Builder, Settings

    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        step = Builder(ir.Module.parse(text), signature, Settings("cpu", "cpu")).build()
    return step.artifact("cpu", "fp32", state, Movements())


@cache
def artifact() -> Artifact:
    """The hand-written step as the compiler delivers it; compiled once per test run."""
    return built(MLIR, SIGNATURE, initial_state())


def batch(seed: int) -> dict[str, np.ndarray]:
    """A batch by input names."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((ROWS, WIDTH), np.float32),
        "y": rng.standard_normal((ROWS, OUT), np.float32),
        "ids": rng.integers(0, 3, ROWS),
        "mask": np.array([True, False, True, True]),
    }


def call(step: Step, inputs: Mapping[str, Any], **options: Any) -> Any:
    """`step` called as its signature nests the batch."""
    x, y, ids, mask = (inputs[name] for name in ("x", "y", "ids", "mask"))
    return step(x, {"y": y, "ids": ids}, mask=mask, mean=True, **options)


def reference(
    state: list[np.ndarray], inputs: Mapping[str, np.ndarray], rates: tuple[float, float] = RATES
) -> tuple[float, np.ndarray]:
    """One step in numpy: updates `state` (in the order of the signature), returns the loss and the prediction."""
    weight, bias, scale, seen, weight_momentum, bias_momentum, count, _ = state
    wide = scale.astype(np.float32)
    pred = inputs["x"] @ weight * wide + bias
    err = np.where(inputs["mask"][:, None], pred - inputs["y"] - inputs["ids"][:, None].astype(np.float32), 0)
    state[4] = MOMENTUM * weight_momentum + inputs["x"].T @ (err * wide) / 4
    state[5] = MOMENTUM * bias_momentum + err.sum(0) / 4
    state[0] = weight - np.float32(rates[0]) * state[4]
    state[1] = bias - np.float32(rates[1]) * state[5]
    state[3] = seen + inputs["mask"].sum()
    state[6] = count + 1
    return float((err**2).sum() / 8), pred
