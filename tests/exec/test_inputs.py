"""Calls: nested and keyword inputs, several outputs, refused batches, and losses that are not finite."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.runtime import Step
from tests.compiled import assert_same_bits, clone_state, model_state
from tests.tolerance import TOLERANCE, assert_states_close


class Nested(nn.Module):
    """Takes a dictionary with a list inside and a keyword; gives a dictionary of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, inputs: dict[str, Any], scale: torch.Tensor) -> dict[str, torch.Tensor]:
        """inputs: {"pair": [f32[8, 6], f32[8, 6]], "shift": f32[4]}; scale f32[] → {"scores", "mean"}."""
        left, right = inputs["pair"]
        scores = self.linear(left - right) * scale + inputs["shift"]
        return {"scores": scores, "mean": scores.mean()}


def _nested_loss(output: dict[str, torch.Tensor], targets: torch.Tensor) -> tuple[torch.Tensor, Any]:
    loss = nn.functional.cross_entropy(output["scores"], targets)
    return loss, {"output": output, "right": (output["scores"].argmax(-1) == targets).sum()}


def _nested_batch(seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    pair = [torch.randn(8, 6, generator=generator) for _ in range(2)]
    inputs = {"pair": pair, "shift": torch.randn(4, generator=generator)}
    return {"inputs": inputs, "scale": torch.tensor(1.5), "targets": torch.randint(4, (8,), generator=generator)}


def test_nested_keyword_inputs_and_several_outputs() -> None:
    torch.manual_seed(0)
    model = Nested()
    start = clone_state(model)
    optimizer = dmc.optim.SGD(lr=0.1)
    step = dmc.compile(model, loss=_nested_loss, optimizer=optimizer, example=_nested_batch(0))
    reference = torch.optim.SGD(model.parameters(), lr=0.1)
    for seed in range(3):
        batch = _nested_batch(seed)
        loss, outputs = step(**batch)
        targets = batch.pop("targets")
        expected, expected_outputs = _nested_loss(model(**batch), targets)
        assert float(loss) == pytest.approx(expected.item(), rel=TOLERANCE["fp32"].loss)
        assert int(outputs["right"].numpy()) == int(expected_outputs["right"])
        scores = torch.tensor(outputs["output"]["scores"].numpy())
        torch.testing.assert_close(scores, expected_outputs["output"]["scores"], rtol=1e-5, atol=1e-6)
        reference.zero_grad()
        expected.backward()
        reference.step()
    assert_states_close(start, model_state(step), model.state_dict(), TOLERANCE["fp32"])


def test_one_tensor_given_twice_in_the_example_stays_two_inputs() -> None:
    same = torch.randn(8, 4)
    model = nn.Linear(4, 4, bias=False)
    optimizer = dmc.optim.SGD(lr=0.0)
    step = dmc.compile(model, loss=nn.functional.mse_loss, optimizer=optimizer, example=(same, same))
    assert float(step(torch.zeros(8, 4), torch.full((8, 4), 3.0))) == pytest.approx(9.0)


class Images(nn.Module):
    """Pixels as cameras give them: channels last, 0 to 255."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.white = nn.Buffer(torch.full((3, 1, 1), 255, dtype=torch.uint8))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """uint8[N, H, W, 3] → f32[N, 4]."""
        whole = pixels.permute(0, 3, 1, 2)[..., 1:].contiguous()
        return self.convolution(whole.float() / self.white.float()).amax((2, 3))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_images_of_bytes(accumulate: int) -> None:
    torch.manual_seed(0)
    pixels, labels = torch.randint(256, (4, 8, 9, 3), dtype=torch.uint8), torch.randint(4, (4,))
    model = Images()
    loss, optimizer = nn.functional.cross_entropy, dmc.optim.SGD(lr=0.1)
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=(pixels, labels), accumulate=accumulate)
    reference = torch.optim.SGD(model.parameters(), lr=0.1)
    start = clone_state(model)
    for _ in range(3):
        expected = loss(model(pixels), labels)
        assert float(step(pixels, labels)) == pytest.approx(expected.item(), rel=TOLERANCE["fp32"].loss)
        reference.zero_grad()
        expected.backward()
        reference.step()
    assert_states_close(start, model_state(step), model.state_dict(), TOLERANCE["fp32"])
    with pytest.raises(dmc.errors.InputError, match=r"ui8.*i8"):
        step(pixels.to(torch.int8), labels)


@pytest.fixture(scope="module")
def step() -> Step:
    torch.manual_seed(0)
    example = (torch.randn(8, 6), torch.zeros(8, dtype=torch.int64))
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    return dmc.compile(model, loss=nn.functional.cross_entropy, optimizer=dmc.optim.AdamW(lr=1e-2), example=example)


GOOD = (torch.ones(8, 6), torch.zeros(8, dtype=torch.int64))
REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "shape": ((torch.ones(7, 6), GOOD[1]), {}, r"8.*6.*7.*6"),
    "rank": ((torch.ones(8), GOOD[1]), {}, "8"),
    "dtype": ((GOOD[0].double(), GOOD[1]), {}, "f64|float64"),
    "target-dtype": ((GOOD[0], GOOD[1].int()), {}, "i32|int32"),
    "too-few": ((GOOD[0],), {}, "2.*1"),
    "too-many": ((*GOOD, GOOD[0]), {}, "2.*3"),
    "unknown-keyword": (GOOD, {"mask": GOOD[0]}, "mask"),
    "not-a-tensor": (("text", GOOD[1]), {}, "str"),
    "rate": (GOOD, {"lr": float("nan")}, "lr"),
    "rates": (GOOD, {"lr": [0.1, 0.2]}, "lr"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_batch_that_does_not_fit_is_refused_and_changes_nothing(step: Step, name: str) -> None:
    args, kwargs, fact = REFUSED[name]
    before = step.state_dict()
    with pytest.raises(dmc.errors.InputError, match=fact):
        step(*args, **kwargs)
    assert_same_bits(step.state_dict(), before)
    step.load_state_dict(before)
    assert float(step(*GOOD)) > 0


def test_a_loss_that_is_not_finite_leaves_the_state_on_request(step: Step) -> None:
    bad = (GOOD[0] * float("nan"), GOOD[1])
    before = step.state_dict()
    with pytest.raises(dmc.errors.NonFiniteLossError, match="nan"):
        step(*bad, check_finite=True)
    assert_same_bits(step.state_dict(), before)
    good = float(step(*GOOD, check_finite=True))
    step.load_state_dict(before)
    assert float(step(*GOOD)) == good

    assert float(step(*bad)) != float(step(*bad)), "without the check a loss that is NaN is returned as such"
    assert bool(model_state(step)["0.weight"].isnan().any())
    step.load_state_dict(before)
