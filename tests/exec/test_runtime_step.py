"""A hand-written training step through the runtime: numbers, state, errors, and calls that do not wait."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from dmc.errors import ArtifactError, DmcError, InputError, NonFiniteLossError, StateError
from dmc.runtime import Artifact, Step, device, load
from dmc.runtime.signature import Signature, StateSpec, TensorSpec
from dmc.runtime.timeline import Timeline
from dmc.runtime.versions import tool_versions
from tests import linear_step
from tests.linear_step import MLIR, SIGNATURE, batch, call, compiled, initial_state, reference


@pytest.fixture(params=["mapped", "staged"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Step:
    """The step on a device whose memory the host can address, and as on a GPU, where it cannot."""
    if request.param == "staged":
        monkeypatch.setattr(device, "is_mappable", lambda _: False)
    return Step(linear_step.artifact())


def _state(step: Step) -> list[np.ndarray]:
    return list(step.snapshot().state)


def _assert_equal(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for spec, a, b in zip(SIGNATURE.state, got, expected, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=spec.name)


def test_five_steps_are_those_of_numpy(step: Step) -> None:
    expected = list(initial_state())
    for seed in range(5):
        inputs = batch(seed)
        loss, aux = call(step, inputs)
        expected_loss, expected_pred = reference(expected, inputs)
        assert float(loss) == pytest.approx(expected_loss, rel=1e-5)
        np.testing.assert_allclose(aux["pred"], expected_pred, rtol=1e-5, atol=1e-5)
        assert int(np.asarray(aux["more"][0])) == 3
        assert aux["more"][1] is None
    for spec, got, wanted in zip(SIGNATURE.state, _state(step), expected, strict=True):
        assert got.dtype == initial_state()[SIGNATURE.state.index(spec)].dtype
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=1e-5, atol=1e-5, err_msg=spec.name)
    assert step.steps_done == 5


def test_outputs_may_be_read_late_and_in_any_order(step: Step) -> None:
    results = [call(step, batch(seed)) for seed in range(6)]
    expected = list(initial_state())
    wanted = [reference(expected, batch(seed)) for seed in range(6)]
    for (loss, aux), (expected_loss, expected_pred) in reversed(list(zip(results, wanted, strict=True))):
        np.testing.assert_allclose(aux["pred"].numpy(), expected_pred, rtol=1e-5, atol=1e-5)
        assert float(loss) == pytest.approx(expected_loss, rel=1e-5)


def test_learning_rates(step: Step) -> None:
    given: list[tuple[Any, tuple[float, float]]] = [
        (None, (0.1, 0.05)),
        (0.01, (0.01, 0.01)),
        ([0.02, 0.3], (0.02, 0.3)),
        (np.float64(0.5), (0.5, 0.5)),
        (None, (0.1, 0.05)),
        ((0.0, 0.0), (0.0, 0.0)),
    ]
    expected = list(initial_state())
    for seed, (lr, rates) in enumerate(given):
        call(step, batch(seed), lr=lr)
        reference(expected, batch(seed), rates)
    np.testing.assert_allclose(_state(step)[0], expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(_state(step)[1], expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("lr", "message"),
    [
        ((0.1,), "lr: expected 2 learning rates, one per parameter group, got 1"),
        (float("nan"), "lr: expected finite numbers not below 0, got nan"),
        (-0.1, "lr: expected finite numbers not below 0, got -0.1"),
        ("fast", "lr: expected a number or 2 numbers, got 'fast'"),
    ],
)
def test_bad_learning_rates(step: Step, lr: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(step, batch(0), lr=lr)
    assert step.steps_done == 0


def test_torch_batches_give_the_same_bits(step: Step) -> None:
    numbers = [float(call(step, batch(seed))[0]) for seed in range(3)]
    other = Step(linear_step.artifact())
    tensors = [{name: torch.from_numpy(array) for name, array in batch(seed).items()} for seed in range(3)]
    assert [float(call(other, inputs)[0]) for inputs in tensors] == numbers


def test_a_batch_that_does_not_fit_leaves_the_state(step: Step) -> None:
    before = _state(step)
    with pytest.raises(InputError, match=r"input 'x': expected f32\[4, 3\], got f32\[3, 4\]"):
        call(step, {**batch(0), "x": np.zeros((3, 4), np.float32)})
    with pytest.raises(InputError, match=r"input 'ids': expected i64\[4\], got i32\[4\]"):
        call(step, {**batch(0), "ids": torch.zeros(4, dtype=torch.int32)})
    with pytest.raises(InputError, match="call: missing 'mask'"):
        step(1, {"y": 2, "ids": 3}, mean=True)
    _assert_equal(_state(step), before)


def test_call_by_flat_names(step: Step) -> None:
    loss, _ = step.call_flat(batch(0))
    assert float(loss) == pytest.approx(reference(list(initial_state()), batch(0))[0], rel=1e-5)
    with pytest.raises(InputError, match="call: expected the inputs x, y, ids, mask; got x"):
        step.call_flat({"x": batch(0)["x"]})


def test_a_loss_that_is_not_finite(step: Step) -> None:
    call(step, batch(0))
    before = _state(step)
    bad = batch(1)
    bad["x"][0, 0] = np.inf
    with pytest.raises(NonFiniteLossError, match="step 2: the loss is inf\n  hint: the state is as it was"):
        call(step, bad, check_finite=True)
    _assert_equal(_state(step), before)
    # The guard is lifted again, and a good step passes it.
    assert np.isfinite(float(call(step, batch(1), check_finite=True)[0]))
    assert step.steps_done == 2
    assert np.isinf(float(call(step, bad)[0]))
    assert not np.isfinite(_state(step)[0]).all()


def test_state_dictionary_round_trip(step: Step) -> None:
    for seed in range(3):
        call(step, batch(seed))
    saved = step.state_dict()
    after = float(call(step, batch(3))[0])
    assert saved["step"] == 3
    assert saved["model"]["head.scale"].dtype == ml_dtypes.bfloat16
    step.load_state_dict(saved)
    assert step.steps_done == 3
    assert float(call(step, batch(3))[0]) == after


def test_a_state_dictionary_that_does_not_fit_changes_nothing(step: Step) -> None:
    call(step, batch(0))
    before = _state(step)
    changed = step.state_dict()
    changed["model"]["weight"] = np.ones((3, 2), np.float32)
    changed["optimizer"]["bias.momentum"] = np.ones((9,), np.float32)
    with pytest.raises(StateError, match=r"optimizer: 'bias\.momentum': expected f32\[2\], got f32\[9\]"):
        step.load_state_dict(changed)
    _assert_equal(_state(step), before)


def test_save_and_load_continue_bit_for_bit(step: Step, tmp_path: Path) -> None:
    for seed in range(3):
        call(step, batch(seed))
    step.save(tmp_path / "step.dmc")
    resumed = load(tmp_path / "step.dmc")
    for seed in range(3, 6):
        assert float(call(resumed, batch(seed))[0]) == float(call(step, batch(seed))[0])
    _assert_equal(_state(resumed), _state(step))


def test_a_loss_is_a_number(step: Step) -> None:
    loss, aux = call(step, batch(0))
    assert repr(loss) == "Loss(f32[], not read yet)"
    assert f"{loss:.2f}" == f"{float(loss):.2f}" == f"{loss.item():.2f}"
    assert loss.is_ready()
    assert (np.asarray(loss).shape, loss.numpy().dtype) == ((), np.float32)
    assert (aux["pred"].shape, aux["pred"].dtype) == ((4, 2), np.float32)
    assert np.asarray(aux["pred"], np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        aux["pred"].numpy()[0, 0] = 1


def test_a_failure_on_the_device_is_reported_ever_after(step: Step, tmp_path: Path) -> None:
    state = step.state_dict()
    # The step waits for an upload, and the upload fails: IREE must carry the failure on to the step's own end.
    uploads = step._session._device.uploads  # pyright: ignore[reportPrivateUsage]
    uploads.advance()
    loss, _ = call(step, batch(0))
    uploads.fail("the device is gone")
    message = r"step: call 1 failed on device 'local-task': .*the device is gone"
    uses: list[Callable[[], Any]] = [
        lambda: float(loss),
        loss.is_ready,
        lambda: call(step, batch(1)),
        step.state_dict,
        lambda: step.load_state_dict(state),
        lambda: step.save(tmp_path / "step.dmc"),
    ]
    for use in uses:
        with pytest.raises(DmcError, match=message):
            use()
    assert list(tmp_path.iterdir()) == []


def test_a_failure_at_the_start_of_a_call_is_reported() -> None:
    # A module whose `step` wants another shape than its signature says: IREE refuses when it is called.
    narrow = MLIR.replace("tensor<4x3xf32>", "tensor<4x5xf32>").replace("tensor<3x2xf32>", "tensor<5x2xf32>")
    artifact = linear_step.artifact()
    step = Step(dataclasses.replace(artifact, modules={"step": compiled(narrow)}))
    for _ in range(2):
        with pytest.raises(DmcError, match=r"step: call 1 failed on device 'local-task': .*INVALID_ARGUMENT"):
            call(step, batch(0))


def test_a_closed_step_says_so(step: Step) -> None:
    loss, _ = call(step, batch(0))
    step.close()
    step.close()
    for use in (lambda: float(loss), lambda: call(step, batch(1)), step.state_dict):
        with pytest.raises(DmcError, match="step: is closed"):
            use()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modules": {}}, "has no module 'step'"),
        ({"modules": {"step": b"no module"}}, "module 'step': cannot be loaded"),
        ({"target": "tpu"}, "target 'tpu': not one of cpu, cuda"),
    ],
)
def test_artifacts_that_cannot_run(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DmcError, match=message):
        Step(dataclasses.replace(linear_step.artifact(), **change))


def test_modules_of_another_convention() -> None:
    from iree.compiler import compile_str

    synchronous = compile_str(MLIR, target_backends=[], extra_args=list(linear_step.FLAGS["cpu"]))
    renamed = compiled(MLIR.replace("@step", "@train"))
    assert isinstance(synchronous, bytes)
    for module, message in ((synchronous, "its function 'step' takes no fences"), (renamed, "has no function 'step'")):
        with pytest.raises(ArtifactError, match=message):
            Step(dataclasses.replace(linear_step.artifact(), modules={"step": module}))


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(DmcError, match="device 'vulkan://99': cannot be opened"):
        Step(linear_step.artifact(), device="vulkan://99")


def _chain(length: int, size: int) -> Step:
    """A step that takes long: it multiplies its state, a matrix, `length` times with the batch, and returns its first
    element.
    """
    tensor = f"tensor<{size}x{size}xf32>"
    product = "%p{} = linalg.matmul ins(%p{}, %x : T, T) outs(%f : T) -> T".replace("T", tensor)
    lines = "\n".join(product.format(i + 1, i) for i in range(length))
    text = f"""
    func.func @step(%p0: {tensor} {{iree.abi.output = 0 : index}}, %n: tensor<i64> {{iree.abi.output = 1 : index}},
                    %lr: tensor<1xf32>, %guard: tensor<i32>, %x: {tensor})
        -> ({tensor}, tensor<i64>, tensor<f32>, tensor<i32>) {{
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
    return Step(Artifact(signature, "cpu", "fp32", {"step": compiled(text)}, {}, state, tool_versions()))


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


def test_a_step_waits_for_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "is_mappable", lambda _: False)
    step = Step(linear_step.artifact())
    opened = step._session._device  # pyright: ignore[reportPrivateUsage]
    gate = Timeline(opened.hal)
    upload_now = opened._copy  # pyright: ignore[reportPrivateUsage]

    def copy_late(source: Any, target: Any, timeline: Timeline, before: Any) -> int:
        if timeline is opened.uploads:
            gate.insert_next(before)
        return upload_now(source, target, timeline, before)

    monkeypatch.setattr(opened, "_copy", copy_late)
    loss, _ = call(step, batch(0))
    assert not loss.is_ready()
    time.sleep(0.1)
    assert not loss.is_ready()
    gate.semaphore.signal(1)
    assert float(loss) == pytest.approx(reference(list(initial_state()), batch(0))[0], rel=1e-5)


def _wide(count: int) -> Step:
    """A step with many small state tensors."""
    tensor = "tensor<4xf32>"
    arguments = ", ".join(f"%s{i}: {tensor} {{iree.abi.output = {i} : index}}" for i in range(count))
    sums = "\n".join(f"%t{i} = arith.addf %s{i}, %x : {tensor}" for i in range(count))
    results = ", ".join(f"%t{i}" for i in range(count))
    types = ", ".join([tensor] * count)
    text = f"""
    func.func @step({arguments}, %n: tensor<i64> {{iree.abi.output = {count} : index}}, %lr: tensor<1xf32>,
                    %guard: tensor<i32>, %x: {tensor}) -> ({types}, tensor<i64>, tensor<f32>, tensor<i32>) {{
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
    return Step(Artifact(signature, "cpu", "fp32", {"step": compiled(text)}, {}, state, tool_versions()))


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
