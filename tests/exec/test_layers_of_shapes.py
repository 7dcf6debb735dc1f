"""Programs of several shapes need not use the same layers: what one does not train, it leaves as it is, to the bit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from tests.large import large_unless

LONG, SHORT = 6, 3
MESH = dmc.Mesh(dp=2)
PLANS = {"one rank": None, "dp": dmc.plan(MESH).data_parallel("dp"), "ZeRO-3": dmc.plan(MESH).data_parallel("dp", 3)}


class Pooled(nn.Module):
    """Only long inputs go through the second layer; the divisor is a constant of each length."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x) / torch.tensor([float(x.shape[1])])
        return self.second(hidden) if x.shape[1] > SHORT else hidden


def _batch(length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(2, length, 4, generator=draw), torch.randn(2, length, 4, generator=draw)


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)


def _assert_alike(state: Mapping[str, Tensor], model: nn.Module) -> None:
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(state[name].numpy(), tensor.numpy(), rtol=2e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("lengths", [(LONG, SHORT), (SHORT, LONG)], ids=["long first", "short first"])
@pytest.mark.parametrize("make", [_adamw, _sgd], ids=["AdamW", "SGD"])
@pytest.mark.parametrize("plan", large_unless(("one rank",), PLANS))
def test_a_layer_that_one_shape_uses(
    plan: str, make: Callable[[nn.Module], torch.optim.Optimizer], lengths: tuple[int, int], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Pooled()
    own = copy.deepcopy(model)
    optimizer = make(own)
    step: Any = dmc.compile(
        model,
        loss=functional.mse_loss,
        optimizer=make(model),
        example=[_batch(length) for length in lengths],
        verify=True,
        plan=PLANS[plan],
    )
    for number, length in enumerate((SHORT, LONG, SHORT, SHORT, LONG)):
        if number == 3:
            step.save(tmp_path / "step.dmc")
            step.close()
            step = dmc.load(tmp_path / "step.dmc")
        before, batch = step.state_dict(), _batch(length, number)
        loss = functional.mse_loss(own(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert float(step(*batch)) == pytest.approx(loss.item(), rel=1e-5)
        after = step.state_dict()
        _assert_alike(after["model"], own)
        if length == SHORT:
            _assert_untouched(before, after)
    _goes_on_in_eager(step, own, optimizer, make)


def _assert_untouched(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    names = [(part, name) for part in ("model", "optimizer") for name in before[part] if name.startswith("second.")]
    assert len(names) > 2
    for part, name in names:
        assert torch.equal(before[part][name], after[part][name]), name


def _goes_on_in_eager(step: Any, own: nn.Module, optimizer: torch.optim.Optimizer, make: Any) -> None:
    """The optimizer of a copy, with the step's state, has what eager's own has."""
    again = copy.deepcopy(own)
    other = make(again)
    other.load_state_dict(step.torch_optimizer_state(other, again))
    for mine, theirs in zip(own.parameters(), again.parameters(), strict=True):
        for slot, value in optimizer.state[mine].items():
            np.testing.assert_allclose(other.state[theirs][slot].numpy(), value.numpy(), rtol=2e-4, atol=1e-7)


class Gan(nn.Module):
    """Its two phases are told by the inputs that they have."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.critic = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, noise: Tensor, real: Tensor | None = None) -> Tensor:
        if real is not None:
            fake = self.critic(self.generator(noise).detach())
            return (functional.softplus(-self.critic(real)) + functional.softplus(fake)).mean()
        frozen = {name: tensor.detach() for name, tensor in self.critic.named_parameters()}
        return functional.softplus(-torch.func.functional_call(self.critic, frozen, (self.generator(noise),))).mean()


def test_inputs_tell_what_is_trained() -> None:
    torch.manual_seed(0)
    model = Gan()
    own = copy.deepcopy(model)
    noise, real = torch.randn(8, 3), torch.randn(8, 4)
    batches = [{"noise": noise, "real": real}, {"noise": noise}]
    optimizers = [torch.optim.Adam(part.parameters(), lr=0.01) for part in (own.critic, own.generator)]
    given = [torch.optim.Adam(part.parameters(), lr=0.01) for part in (model.critic, model.generator)]
    step: Any = dmc.compile(model, optimizer=given, example=batches, verify=True)
    for _ in range(5):
        for batch, optimizer in zip(batches, optimizers, strict=True):
            loss = own(**batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert float(step(**batch)) == pytest.approx(loss.item(), rel=1e-5)
    _assert_alike(step.state_dict()["model"], own)
