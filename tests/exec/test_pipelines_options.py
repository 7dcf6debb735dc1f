"""What a pipeline is combined with: weights that are not trained, memory, precision, schedules of one's own, skips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.errors import MemoryCapError
from dmc.plans import Plan
from tests.compiled import train
from tests.large import large, large_unless
from tests.pipelined import MICRO, STEPS, assert_same_state, assert_trains_alike, batch, compiled, layers, two_stages

# Two micro-batches, the last backward pass of which is split in two.
SPLIT = "0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1I1,1W1\n"


def _frozen(*numbers: int) -> nn.Module:
    model = layers()
    for number in numbers:
        model.get_submodule(str(number)).requires_grad_(False)
    return model


def _in_a_file(folder: Path, text: str) -> Plan:
    file = folder / "mine.csv"
    file.write_text(text)
    return two_stages(schedule=file)


CASES: dict[str, tuple[Callable[[], nn.Module], Plan, dict[str, Any]]] = {
    "frozen first stage": (lambda: _frozen(0), two_stages(), {}),
    "frozen last stage": (lambda: _frozen(3), two_stages(), {}),
    "recompute": (layers, two_stages().recompute("*"), {}),
    "bf16": (layers, two_stages(), {"precision": "bf16-mixed", "rel": 2e-3}),
    "sgd": (layers, two_stages(), {"optimizer": dmc.optim.SGD(lr=0.1)}),
}


@pytest.mark.parametrize("name", large_unless(("frozen first stage",), CASES))
def test_it_trains_like_one_rank(name: str) -> None:
    build, plan, options = CASES[name]
    assert_trains_alike(build(), plan, **options)


def test_a_schedule_of_ones_own(tmp_path: Path) -> None:
    assert_trains_alike(layers(), _in_a_file(tmp_path, SPLIT))


class _OwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = layers()

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return functional.mse_loss(self.body(x), target)


@large
def test_a_model_whose_loss_is_its_own() -> None:
    pairs = [batch(seed) for seed in range(STEPS)]
    examples = [{"x": x, "target": target} for x, target in pairs]
    given: dict[str, Any] = {"loss": None, "example": examples[0]}
    one = compiled(_OwnLoss(), accumulate=MICRO, **given)
    two = compiled(_OwnLoss(), plan=two_stages("body.3"), **given)
    assert train(two, examples) == pytest.approx(train(one, examples), rel=2e-6)
    assert_same_state(two, one)


class _Twice(nn.Module):
    """Two layers that are called before and after another."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.around = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        self.between = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.around(self.between(self.around(x)))


@large
def test_a_cut_in_a_module_that_is_called_twice() -> None:
    """The second call, all of it, is in the second stage, which is sent the weights of the first."""
    assert_trains_alike(_Twice(), two_stages("around.1"))


class _Skips(nn.Module):
    """A small U-Net: what the first stage computes is read by the last but one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.down = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU())
        self.bottom = nn.Sequential(nn.Conv2d(4, 8, 3, 2, padding=1), nn.ReLU())
        self.up, self.merge = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 4, 3, padding=1)
        self.head = nn.Conv2d(4, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """f32[batch, 1, height, width] → the same."""
        high = self.down(x)
        low = self.up(self.bottom(high))
        return self.head(torch.relu(self.merge(torch.cat([low, high], 1))))


def _images(seed: int) -> tuple[Tensor, Tensor]:
    images = torch.randn(2, 4, 1, 8, 8, generator=torch.Generator().manual_seed(seed))
    return images[0], images[1]


@large
def test_skip_connections_across_stages() -> None:
    """Four stages over two ranks: the first and the third are on one."""
    given: dict[str, Any] = {"example": _images(0)}
    plan = dmc.plan(dmc.Mesh(pp=2)).pipeline(
        "pp", cut=["bottom", "up", "merge"], microbatches=MICRO, schedule="interleaved", chunks=2
    )
    one, many = compiled(_Skips(), accumulate=MICRO, **given), compiled(_Skips(), plan=plan, **given)
    batches = [_images(seed) for seed in range(STEPS)]
    assert train(many, batches) == pytest.approx(train(one, batches), rel=2e-6)
    assert_same_state(many, one)


def test_a_cap_holds_for_each_rank() -> None:
    """Or the error names the rank that needs more."""
    needed = compiled(layers(), plan=two_stages(), verify=False).snapshot().job.peaks()["device"]
    assert_trains_alike(layers(), two_stages(), memory_cap=needed)
    with pytest.raises(MemoryCapError, match=r"the step of rank 0 along pp: needs .* but the cap is 4,096"):
        compiled(layers(), plan=two_stages(), verify=False, memory_cap=4096)
