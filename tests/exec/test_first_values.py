"""The first numbers of a model on the device meta: by its own functions, the same bits on every mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

import dmc
from dmc.compiled_step import CompiledStep
from dmc.errors import DmcError, StateError
from dmc.first_values import FirstValues
from tests.compiled import assert_same_bits
from tests.exec.test_meta_models import CONFIGS, compiled, losses


def llama() -> nn.Module:
    return AutoModelForCausalLM.from_config(CONFIGS["llama"]())


def empty(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return make()


@pytest.fixture(scope="module")
def one_rank() -> CompiledStep:
    step = compiled(empty(llama))
    step.initialise(llama, seed=3)
    return step


@pytest.mark.parametrize("axes", [{"dp": 2}, {"tp": 2}, {"dp": 2, "tp": 2}])
def test_the_bits_are_the_same_on_every_mesh(axes: dict[str, int], one_rank: CompiledStep) -> None:
    plan = dmc.plan(dmc.Mesh(links=None, **axes))
    plan = plan.data_parallel("dp", zero=3) if "dp" in axes else plan
    plan = plan.use(dmc.plans.megatron("tp")) if "tp" in axes else plan
    step = compiled(empty(llama), plan=plan)
    step.initialise(llama, seed=3)
    assert step.differing_replicas() == ()
    assert_same_bits(step.state_dict(), one_rank.state_dict())


def test_a_seed_decides_and_nothing_else_does(one_rank: CompiledStep) -> None:
    first = one_rank.state_dict()["model"]
    step = compiled(empty(llama))
    before = torch.get_rng_state()
    step.initialise(llama, seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(step.state_dict()["model"]["lm_head.weight"], first["lm_head.weight"])
    torch.manual_seed(7)
    step.initialise(llama, seed=3)
    assert_same_bits(step.state_dict()["model"], first)
    assert losses(step)[0] == pytest.approx(4.56, abs=0.3)


@pytest.mark.parametrize("name", CONFIGS)
def test_they_are_distributed_as_in_eager(name: str) -> None:
    def make() -> nn.Module:
        return AutoModelForCausalLM.from_config(CONFIGS[name]())

    values, eager = FirstValues(make, 0), dict(make().named_parameters())
    assert eager.keys() <= values.tensors.keys()
    for each, tensor in eager.items():
        value = values.value(each)
        assert (value.dtype, value.shape) == (tensor.dtype, tensor.shape)
        # GPT-2 divides that of what ends in a residual by a root of the number of layers.
        assert value.std().item() == pytest.approx(tensor.std().item(), rel=0.2, abs=1e-9), each
        assert value.mean().item() == pytest.approx(tensor.mean().item(), abs=5e-3), each


class Varied(nn.Module):
    """Ways of giving numbers to parameters."""

    mask: torch.Tensor

    def __init__(self, forgotten: bool = False, width: int = 4) -> None:
        super().__init__()
        self.table = nn.Embedding(10, width, padding_idx=3)
        self.linear, self.orthogonal, self.truncated = (nn.Linear(width, width) for _ in range(3))
        nn.init.orthogonal_(self.orthogonal.weight)
        nn.init.trunc_normal_(self.truncated.weight, std=10.0, a=-1.0, b=1.0)
        self.linear.bias.data.fill_(2.0)
        self.own = nn.Parameter(torch.randn(8, width) * 0.02 + 1.0)
        self.listed = nn.Parameter(torch.tensor([1.0] * width))
        self.rates = [rate.item() for rate in torch.linspace(0, 0.5, 3)]
        if not forgotten:
            nn.init.zeros_(self.table.weight[5])
        self.forgotten = nn.Parameter(torch.empty(width) if forgotten else torch.zeros(width))
        self.register_buffer("mask", torch.ones(8, 8).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.truncated(self.orthogonal(self.linear(self.table(x) + self.own))) * self.listed + self.forgotten
        return self.mask @ x * self.rates[1]


def varied() -> CompiledStep:
    options: dict[str, Any] = {"loss": nn.functional.mse_loss, "optimizer": dmc.optim.SGD(lr=0.1), "progress": False}
    example = (torch.zeros(2, 8, dtype=torch.int64), torch.zeros(2, 8, 4))
    return dmc.compile(Varied(), example=example, verify=False, **options)


def test_every_way_of_giving_numbers() -> None:
    step = varied()
    step.initialise(Varied)
    model = step.state_dict()["model"]
    assert torch.equal(model["table.weight"][[3, 5]], torch.zeros(2, 4))
    assert model["table.weight"].count_nonzero() == 32
    assert torch.equal(model["linear.bias"], torch.full([4], 2.0))
    assert torch.equal(model["listed"], torch.ones(4))
    assert torch.equal(model["mask"], torch.ones(8, 8).tril())
    turned = model["orthogonal.weight"]
    torch.testing.assert_close(turned @ turned.T, torch.eye(4))
    assert model["truncated.weight"].abs().max() <= 1.0 < model["truncated.weight"].abs().sum()
    assert 0.005 < model["own"].std() < 0.04 and 0.9 < model["own"].mean() < 1.1


def test_what_gets_no_numbers_changes_nothing() -> None:
    step = varied()
    before = step.state_dict()
    with pytest.raises(DmcError, match=r"^'forgotten': gets no numbers while the model is made\n  hint: make it with"):
        step.initialise(lambda: Varied(forgotten=True))
    with pytest.raises(StateError, match=r"has 'own' of shape \[8, 2\], the step of \[8, 4\] \(\d+ such tensors\)"):
        step.initialise(lambda: Varied(width=2))
    assert_same_bits(step.state_dict(), before)
    other = compiled(empty(llama))
    with pytest.raises(StateError, match=r"has no 'model\.embed_tokens\.weight' \(20 such tensors\)"):
        other.initialise(Varied)
