"""What a program does with the model and the optimizer that it compiled: followed, copied, or told that it has no
effect.
"""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils

import dmc
from dmc.compiled_step import CompiledStep
from dmc.errors import DmcError, IgnoredChange, NonFiniteLossError, StateError
from dmc.outside import Outside
from dmc.runtime.files.artifact import Artifact

X, Y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


class Net(nn.Module):
    """Everything that may change: a buffer that is saved, one that is not, an attribute, a mode."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.scale = nn.Linear(4, 3), nn.BatchNorm1d(3), 1.0
        self.register_buffer("steps", torch.zeros(()), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return self.norm(self.linear(x)) * self.scale


class Made(NamedTuple):
    step: CompiledStep
    model: Net
    optimizer: torch.optim.Optimizer


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)


@pytest.fixture(scope="module")
def compiled() -> Made:
    torch.manual_seed(0)
    model = Net()
    optimizer = _optimizer(model)
    given = dmc.optim.FromTorch(optimizer, clip_grad_norm=1.0)
    step = dmc.compile(model, loss=nn.functional.cross_entropy, optimizer=given, example=(X, Y), verify=False)
    return Made(step, model, optimizer)


@pytest.fixture(scope="module")
def artifact(compiled: Made) -> Artifact:
    return compiled.step.snapshot()


@pytest.fixture
def made(artifact: Artifact) -> Made:
    model = Net()
    CompiledStep(artifact).update(model)
    optimizer = _optimizer(model)
    return Made(CompiledStep(artifact, outside=Outside(model, [], {"training": optimizer})), model, optimizer)


def test_the_rate_of_the_given_optimizer_is_followed(made: Made, artifact: Artifact) -> None:
    step, _, optimizer = made
    other = CompiledStep(artifact)
    scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert float(step(X, Y)) == float(other(X, Y, lr=optimizer.param_groups[0]["lr"]))
            scheduler.step()
        optimizer.param_groups[0]["lr"] = torch.tensor(0.25)
        assert float(step(X, Y)) == float(other(X, Y, lr=0.25))
        optimizer.param_groups[0]["lr"].fill_(0.125)
        assert float(step(X, Y)) == float(other(X, Y, lr=0.125))
    assert [*map(bytes, step.snapshot().state)] == [*map(bytes, other.snapshot().state)]
    optimizer.param_groups[0]["lr"] = float("nan")
    with pytest.raises(DmcError, match="lr: expected numbers of at least 0"):
        step(X, Y)
    assert step.steps_done == 5


def test_an_optimizer_that_is_gone_leaves_its_rate(artifact: Artifact) -> None:
    model = Net()
    step = CompiledStep(artifact, outside=Outside(model, [], {"training": torch.optim.SGD(model.parameters(), lr=0.7)}))
    other = CompiledStep(artifact)
    for _ in range(2):
        assert float(step(X, Y)) == float(other(X, Y))


def _freeze(made: Made) -> None:
    made.model.linear.weight.requires_grad_(False)


def _attribute(made: Made) -> None:
    made.model.scale = 3.0


def _mode(made: Made) -> None:
    made.model.norm.eval()


def _load(made: Made) -> None:
    made.model.load_state_dict({name: 2 * tensor for name, tensor in made.model.state_dict().items()})


def _momentum(made: Made) -> None:
    made.optimizer.param_groups[0]["momentum"] = 0.9


CHANGES = {
    "requires_grad changed after dmc.compile (linear.weight)": _freeze,
    "attributes changed after dmc.compile (scale)": _attribute,
    "modes (train, eval) changed after dmc.compile (norm)": _mode,
    "tensors of the model changed after dmc.compile (linear.weight, linear.bias, norm.weight, …)": _load,
    "settings of the optimizer changed after dmc.compile (momentum of group 0)": _momentum,
}


@pytest.mark.parametrize("fact", CHANGES)
def test_a_change_that_has_no_effect_is_said_once(made: Made, fact: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.step(X, Y)
        CHANGES[fact](made)
        for _ in range(4):
            made.step(X, Y)
        CHANGES[fact](made)
        for _ in range(9):
            made.step(X, Y)
    assert [each.category for each in caught] == [IgnoredChange]
    assert fact in str(caught[0].message)
    assert caught[0].filename == __file__


def test_the_state_of_a_step_goes_into_a_model(made: Made) -> None:
    step, model, _ = made
    float(step(X, Y))
    with pytest.warns(IgnoredChange, match=r"step\.update\(model\) copies"):
        model(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(X)
        step.update(model)
        model(X)
        for _ in range(5):
            step(X, Y)
    step.update(model)
    state = step.state_dict()
    torch.testing.assert_close(model.state_dict(), state["model"], rtol=0, atol=0)
    assert float(model.steps) == step.steps_done == float(state["other"]["steps"])  # pyright: ignore[reportTypedDictNotRequiredAccess]
    half = Net().to(torch.bfloat16)
    step.update(half)
    torch.testing.assert_close(half.linear.weight, model.linear.weight.bfloat16())
    with pytest.raises(StateError, match=r"the model: lacks 'linear\.weight', the step of shape"):
        step.update(nn.Sequential(Net()))


def test_the_way_by_hand_warns_of_nothing(made: Made) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(9):
            made.step(X, Y)
            made.model.load_state_dict(made.step.state_dict()["model"])
            made.model(X)


def test_a_copy_of_the_model_needs_no_dmc_and_says_nothing(compiled: Made) -> None:
    compiled.step(X, Y)
    data = pickle.dumps(compiled.model)
    assert b"dmc" not in data.replace(b"tests.exec", b"")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (copy.deepcopy(compiled.model), pickle.loads(data)):
            assert each(X).shape == (6, 3)
    with pytest.warns(IgnoredChange, match="before the step trained"):
        compiled.model(X)


def test_a_norm_that_is_not_finite_is_named(made: Made) -> None:
    weights = made.step.state_dict()["model"]
    made.step.load_state_dict({"model": {**weights, "norm.weight": torch.full((3,), 1e37)}})
    with pytest.raises(NonFiniteLossError, match=r"the loss is \S+e\+37, but the norm of the gradients, by which they"):
        made.step(X, Y, check_finite=True)
    assert made.step.steps_done == 0


@pytest.mark.parametrize(
    "copied", [pickle.dumps, copy.copy, copy.deepcopy, lambda step: torch.save(step, io.BytesIO())]
)
def test_a_step_is_not_copied(made: Made, copied: Callable[[Any], Any]) -> None:
    with pytest.raises(DmcError, match=r"cannot be pickled or copied(.|\n)*step\.save\(path\)(.|\n)*state_dict"):
        copied(made.step)


def test_a_loss_is_copied_as_its_value(made: Made) -> None:
    loss = made.step(X, Y)
    file = io.BytesIO()
    torch.save({"loss": loss}, file)
    file.seek(0)
    assert torch.load(file, weights_only=False) == {"loss": float(loss)} == {"loss": copy.deepcopy(loss)}


OPTIONS: dict[str, dict[str, Any]] = {
    "LambdaLR": {"lr_lambda": lambda epoch: 0.5**epoch},
    "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.5},
    "StepLR": {"step_size": 1},
    "MultiStepLR": {"milestones": [1]},
    "ConstantLR": {},
    "LinearLR": {},
    "ExponentialLR": {"gamma": 0.5},
    "PolynomialLR": {},
    "CosineAnnealingLR": {"T_max": 4},
    "CosineAnnealingWarmRestarts": {"T_0": 2},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 0.2},
    "OneCycleLR": {"max_lr": 0.2, "total_steps": 9},
    "ReduceLROnPlateau": {"patience": 0},
    "SWALR": {"swa_lr": 0.05},
}
MADE: dict[str, Callable[[Any], Any]] = {
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o), lr_scheduler.StepLR(o, 1)], [2]),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(o), lr_scheduler.StepLR(o, 1)]),
}
CYCLES = ("CyclicLR", "OneCycleLR")


def test_every_scheduler_is_tried() -> None:
    found = {each for each in vars(lr_scheduler).values() if isinstance(each, type)}
    kinds = {each.__name__ for each in found if issubclass(each, lr_scheduler.LRScheduler)}
    assert kinds - {"LRScheduler", "_LRScheduler", "EpochScheduler"} <= {*OPTIONS, *MADE}


def _make(name: str, **more: Any) -> Callable[[Any], Any]:
    kind = getattr(lr_scheduler, name, None) or getattr(swa_utils, name)
    return MADE.get(name) or (lambda optimizer: kind(optimizer, **OPTIONS[name], **more))


@pytest.mark.parametrize("name", [*OPTIONS, *MADE])
def test_a_scheduler_works_or_is_refused_with_a_way_out(made: Made, artifact: Artifact, name: str) -> None:
    """That of the step, and one of the given optimizer, have eager's rates."""
    step, _, optimizer = made
    more = {"cycle_momentum": False} if name in CYCLES else {}
    if more:
        with pytest.raises(DmcError, match=r"also cycles momentum(.|\n)*cycle_momentum=False"):
            step.scheduler(_make(name))
    other, eager = CompiledStep(artifact), _optimizer(Net())
    own, theirs, expected = (
        step.scheduler(_make(name, **more)),
        _make(name, **more)(optimizer),
        _make(name, **more)(eager),
    )
    third = CompiledStep(artifact)
    for _ in range(4):
        losses = step(X, Y), other(X, Y, lr=own), third(X, Y, lr=eager.param_groups[0]["lr"])
        assert len({*map(float, losses)}) == 1
        for each in (own, theirs, expected):
            each.step(1.0) if name == "ReduceLROnPlateau" else each.step()
