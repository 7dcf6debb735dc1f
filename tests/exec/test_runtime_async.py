"""Calls that do not wait, cost the host little, and still run in order."""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

from dmc.program.signature import Signature, StateSpec, TensorSpec
from dmc.runtime import Step
from tests.linear_step import built

COUNTER = '%n: tensor<i64> {dm.name = "step", dm.role = "counter"}'
CONTROLS = (
    '%lr: tensor<1xf32> {dm.name = "lr", dm.role = "control"}, '
    '%guard: tensor<i32> {dm.name = "guard", dm.role = "control"}'
)
OUTPUTS = 'tensor<i64> {dm.name = "step"}, tensor<f32> {dm.name = "loss"}, tensor<i32> {dm.name = "finite"}'


def _chain(length: int, size: int) -> Step:
    """A step that takes long: it multiplies its state, a matrix, `length` times with the batch, and returns its first
    element.
    """
    tensor = f"tensor<{size}x{size}xf32>"
    product = "%p{} = linalg.matmul ins(%p{}, %x : T, T) outs(%f : T) -> T".replace("T", tensor)
    lines = "\n".join(product.format(i + 1, i) for i in range(length))
    text = f"""
    func.func @step(%p0: {tensor} {{dm.name = "p", dm.role = "parameter"}}, {COUNTER}, {CONTROLS},
                    %x: {tensor} {{dm.name = "x", dm.role = "batch"}})
        -> ({tensor} {{dm.name = "p"}}, {OUTPUTS}) {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {tensor}
      %f = linalg.fill ins(%zero : f32) outs(%e : {tensor}) -> {tensor}
      {lines}
      %one = arith.constant dense<1> : tensor<i64>
      %n1 = arith.addi %n, %one : tensor<i64>
      %loss = tensor.extract_slice %p{length}[0, 0] [1, 1] [1, 1] : {tensor} to tensor<f32>
      %finite = arith.constant dense<1> : tensor<i32>
      return %p{length}, %n1, %loss, %finite : {tensor}, tensor<i64>, tensor<f32>, tensor<i32>
    }}"""
    signature = Signature(
        state=(StateSpec("p", "f32", (size, size)), StateSpec("step", "i64", (), role="counter")),
        controls=(TensorSpec("lr", "f32", (1,)), TensorSpec("guard", "i32", ())),
        batch=(TensorSpec("x", "f32", (size, size)),),
        outputs=(TensorSpec("loss", "f32", ()), TensorSpec("finite", "i32", ())),
        args={"tuple": [{"leaf": 0}]},
        kwargs={"dict": {}},
        aux=None,
        learning_rates=(0.1,),
    )
    state = (np.eye(size, dtype=np.float32), np.zeros((), np.int64))
    return Step(built(text, signature, state))


def _scaling(factor: float) -> np.ndarray:
    """A matrix that multiplies by `factor` in 60 products."""
    return np.eye(512, dtype=np.float32) * np.float32(factor ** (1 / 60))


def test_calls_return_before_the_step_is_done() -> None:
    step = _chain(60, 512)
    x = _scaling(2)
    float(step(x))
    start = time.perf_counter()
    loss = step(x)
    issued = time.perf_counter() - start
    was_ready = loss.is_ready()
    # The batch may be reused at once.
    x[:] = 7
    assert float(loss) == pytest.approx(4, rel=1e-4)
    assert not was_ready
    assert issued < 0.25 * (time.perf_counter() - start)


def test_at_most_two_steps_are_in_flight_and_each_sees_the_last() -> None:
    step = _chain(60, 512)
    losses = [step(_scaling(factor)) for factor in (2, 3, 5, 7, 11)]
    ready = [loss.is_ready() for loss in losses]
    assert ready[:3] == [True, True, True]
    assert not ready[4]
    assert [float(loss) for loss in losses] == pytest.approx([2, 6, 30, 210, 2310], rel=1e-4)
    assert step.steps_done == 5


def _wide(count: int) -> Step:
    """A step with many small state tensors."""
    tensor = "tensor<4xf32>"
    arguments = ", ".join(f'%s{i}: {tensor} {{dm.name = "s{i}", dm.role = "parameter"}}' for i in range(count))
    sums = "\n".join(f"%t{i} = arith.addf %s{i}, %x : {tensor}" for i in range(count))
    results = ", ".join(f"%t{i}" for i in range(count))
    types = ", ".join([tensor] * count)
    named = ", ".join(f'{tensor} {{dm.name = "s{i}"}}' for i in range(count))
    text = f"""
    func.func @step({arguments}, {COUNTER}, {CONTROLS}, %x: {tensor} {{dm.name = "x", dm.role = "batch"}})
        -> ({named}, {OUTPUTS}) {{
      {sums}
      %one = arith.constant dense<1> : tensor<i64>
      %n1 = arith.addi %n, %one : tensor<i64>
      %loss = tensor.extract_slice %x[0] [1] [1] : {tensor} to tensor<f32>
      %finite = arith.constant dense<1> : tensor<i32>
      return {results}, %n1, %loss, %finite : {types}, tensor<i64>, tensor<f32>, tensor<i32>
    }}"""
    signature = Signature(
        state=(*(StateSpec(f"s{i}", "f32", (4,)) for i in range(count)), StateSpec("step", "i64", (), role="counter")),
        controls=(TensorSpec("lr", "f32", (1,)), TensorSpec("guard", "i32", ())),
        batch=(TensorSpec("x", "f32", (4,)),),
        outputs=(TensorSpec("loss", "f32", ()), TensorSpec("finite", "i32", ())),
        args={"tuple": [{"leaf": 0}]},
        kwargs={"dict": {}},
        aux=None,
        learning_rates=(0.1,),
    )
    state = (*(np.zeros(4, np.float32) for _ in range(count)), np.zeros((), np.int64))
    return Step(built(text, signature, state))


def test_a_call_with_600_state_tensors_costs_the_host_less_than_a_millisecond() -> None:
    step = _wide(600)
    x = np.ones(4, np.float32)
    seconds: list[float] = []
    for number in range(100):
        start = time.perf_counter()
        loss = step(x, lr=0.1 + number % 2)
        seconds.append(time.perf_counter() - start)
        float(loss)
    assert statistics.median(seconds) < 1e-3
    assert step.state_dict()["model"]["s599"].tolist() == [100.0] * 4
