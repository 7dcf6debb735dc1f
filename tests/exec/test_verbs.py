"""Schedules of the user's own, run: in the types of their words as eager in the same, else with the same results."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import dmc
from dmc.analysis.commands.events import needed_edges
from dmc.program import Collective, Launch, Program
from dmc.runtime import Step
from tests.compiled import assert_same_bits, clone_state, model_state, train
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), _Block(), _Block(), nn.Linear(16, 4))


def _batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 8, generator=generator), torch.arange(8) % 4) for _ in range(3)]


def _compiled(plan: dmc.plans.Recipe, **options: Any) -> Step:
    given: dict[str, Any] = {"loss": nn.functional.cross_entropy, "example": _batches()[0], "plan": plan, **options}
    return dmc.compile(_model(), optimizer=dmc.optim.SGD(lr=0.1), **given)


def _eager(model: nn.Module) -> tuple[list[float], dict[str, Tensor]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses: list[float] = []
    for inputs, targets in _batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()


def _assert_as(step: Step, losses: list[float], expected: dict[str, Tensor], precision: str) -> None:
    start = clone_state(_model())
    assert_losses_close(train(step, _batches()), losses, TOLERANCE[precision])
    assert_states_close(start, model_state(step), expected, TOLERANCE[precision])


def test_every_module_in_f32_is_a_step_in_f32() -> None:
    # As exact as a step in f32, which one in bf16-mixed is far from.
    step = _compiled(dmc.plan().precision("*", "fp32"), precision="bf16-mixed", verify=True)
    _assert_as(step, *_eager(_model()), "fp32")


class _Narrow(nn.Module):
    """A block whose parameters and arithmetic are in bf16, by hand."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        narrow = {name: each.bfloat16() for name, each in self.block.named_parameters()}
        return torch.func.functional_call(self.block, narrow, x.bfloat16()).float()


def test_a_block_in_bf16_is_as_eager_by_hand() -> None:
    step = _compiled(dmc.plan().precision("1", "bf16").keep_apart("1"), verify=True)
    first, block, *others = _model().children()
    losses, expected = _eager(nn.Sequential(first, _Narrow(block), *others))
    _assert_as(step, losses, {name.replace("1.block.", "1."): each for name, each in expected.items()}, "bf16-mixed")
    # Kernels of the block compute nothing else, nor do others anything of it.
    plain = _compiled(dmc.plan().precision("1", "bf16"), verify=False)
    assert _launches(step) > _launches(plain)


def test_movements_one_after_another_in_buckets_of_their_own_give_the_same_bits() -> None:
    plan = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp")
    usual = _compiled(plan, verify=False)
    alone = _compiled(plan.bucket(1).overlap(False), verify=False)
    assert [needed_edges(each, in_turn=True) for each in _programs(alone)] == [()]
    assert any(needed_edges(each, in_turn=True) for each in _programs(usual))
    assert _collectives(alone) > _collectives(usual)
    assert train(alone, _batches()) == train(usual, _batches())
    assert_same_bits(alone.state_dict(), usual.state_dict())


def _programs(step: Step) -> list[Program]:
    return [each.program for each in step.snapshot().job.classes]


def _launches(step: Step) -> int:
    return sum(isinstance(each, Launch) for each in _programs(step)[0].commands)


def _collectives(step: Step) -> int:
    return sum(isinstance(each, Collective) for each in _programs(step)[0].commands)
