"""A hand-written training step through the runtime: numbers, state and errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from dmc.errors import ArtifactError, DmcError, InputError, NonFiniteLossError, StateError
from dmc.lowering.iree.compiler import run_iree
from dmc.runtime import Step, load
from dmc.runtime.sessions.iree import device
from dmc.runtime.sessions.iree.device import Device
from dmc.target import CPU
from tests import linear_step
from tests.linear_step import MLIR, SIGNATURE, batch, built, call, initial_state, reference


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
        (float("nan"), "lr: expected numbers of at least 0 that are finite in float32, got nan"),
        (-0.1, "lr: expected numbers of at least 0 that are finite in float32, got -0.1"),
        ((0.1, 1e40), r"lr: expected numbers of at least 0 that are finite in float32, got 1e\+40"),
        (10**400, "lr: expected a number or 2 numbers, got 1000"),
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
    with pytest.raises(InputError, match="got x, y, ids, mask, z"):
        step.call_flat({**batch(0), "z": batch(0)["x"]})


def test_a_loss_that_is_not_finite(step: Step) -> None:
    call(step, batch(0))
    before = _state(step)
    bad = batch(1)
    bad["x"][0, 0] = np.inf
    with pytest.raises(NonFiniteLossError, match="step 2: the loss is inf\n  hint: the state is unchanged"):
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
    # The step waits for one before it, which fails: IREE must carry the failure on to the step's own end.
    steps = step._session._steps  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    steps.advance()
    loss, _ = call(step, batch(0))
    steps.fail("the device is gone")
    message = r"step: call 2 failed on device 'local-task': .*the device is gone"
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
    # A module whose `step` wants larger arenas than its plan says: IREE refuses when it is called.
    wide = MLIR.replace("tensor<4x3xf32>", "tensor<4x5000xf32>").replace("tensor<3x2xf32>", "tensor<5000x2xf32>")
    larger = built(wide, SIGNATURE, ())
    step = Step(dataclasses.replace(linear_step.artifact(), modules=larger.modules))
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
        ({"modules": {}}, "has no code for 'cpu'"),
        ({"modules": {"cpu": b"no module"}}, "module 'step': cannot be loaded"),
        ({"target": "tpu"}, "has no code for 'tpu'"),
        ({"target": "cuda"}, "has no code for 'cuda'"),
    ],
)
def test_artifacts_that_cannot_run(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DmcError, match=message):
        Step(dataclasses.replace(linear_step.artifact(), **change))


def test_modules_of_another_convention() -> None:
    for name, message in (("step", "its function 'step' accepts no fences"), ("train", "has no function 'step'")):
        module = run_iree(f"func.func @{name}() {{ return }}".encode(), CPU)
        with pytest.raises(ArtifactError, match=message):
            Step(dataclasses.replace(linear_step.artifact(), modules={"cpu": module}))


def test_devices_that_are_not_there() -> None:
    for name in ("vulkan", "cpu:one", "cuda"):
        with pytest.raises(ArtifactError, match=f"was planned for cpu, not for device '{name}'"):
            Step(linear_step.artifact(), device=name)
    with pytest.raises(DmcError, match="device 'cuda': cannot be opened"):
        Device("cuda")
