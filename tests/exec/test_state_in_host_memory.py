"""Steps whose optimizer's state waits in host memory between its uses: on the CPU, with the same bits as without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.errors import DmcError, PlanError
from dmc.program import Move, Program
from dmc.runtime import Step
from tests.compiled import assert_same_bits, train
from tests.large import large

WIDTH = 64
SLOTS = ("exp_avg", "exp_avg_sq")
ADAMW = dmc.optim.AdamW(lr=0.01, weight_decay=0.1, clip_grad_norm=0.5)


def _step(optimizer: Any = ADAMW, **options: Any) -> Step:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
    )
    options = {"verify": False, **options}
    return dmc.compile(model, loss=nn.functional.mse_loss, optimizer=optimizer, example=_batch(0), **options)


def _batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(64, WIDTH, generator=generator), torch.randn(64, WIDTH, generator=generator)


def _batches(count: int, first: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [_batch(first + number) for number in range(count)]


def _program(step: Step) -> Program:
    return step.snapshot().job.programs[0]


def _waiting(step: Step) -> dict[str, int]:
    """The bytes of each tensor of the state that is in host memory."""
    return {slot.name: slot.range.length for slot in _program(step).slots if slot.range.space == "host"}


def _assert_trains_alike(step: Step, other: Step, **options: Any) -> None:
    assert train(step, _batches(5), **options) == train(other, _batches(5), **options)
    assert_same_bits(step.state_dict(), other.state_dict())


def test_each_tensor_is_fetched_and_put_back_in_its_place() -> None:
    plain, asked = _step(), _step(plan=dmc.plan().offload_optimizer(), verify=True)
    program, waiting = _program(asked), _waiting(asked)
    parameters = [slot.name for slot in program.slots if slot.role == "parameter"]
    assert set(waiting) == {f"{name}.{slot}" for name in parameters for slot in SLOTS}
    places = {slot.range: slot.name for slot in program.slots}
    moves = [each for each in program.commands if isinstance(each, Move)]
    fetched = [places[each.source] for each in moves if each.source.space == "host"]
    put_back = [places[each.target] for each in moves if each.target.space == "host"]
    assert sorted(fetched) == sorted(put_back) == sorted(waiting)
    queues = {program.lanes[each.lane].queue: each for each in moves}
    assert set(queues) == {"copy_in", "copy_out"}
    # All but what the schedule fetches early, where the device has room.
    freed = _program(plain).arenas["device"] - program.arenas["device"]
    assert 2 * freed > sum(waiting.values()) and "host" not in _program(plain).arenas
    _assert_trains_alike(plain, asked)


def test_only_what_is_named_waits() -> None:
    asked = _step(plan=dmc.plan().offload_optimizer("0.*").offload_optimizer("4.bias"))
    assert set(_waiting(asked)) == {f"{name}.{slot}" for name in ("0.weight", "0.bias", "4.bias") for slot in SLOTS}
    _assert_trains_alike(_step(), asked)


@pytest.mark.parametrize(
    "optimizer",
    [
        pytest.param(dmc.optim.SGD(lr=0.1, momentum=0.9), marks=large),
        dmc.optim.NAdam(lr=0.01),
        dmc.optim.Adafactor(lr=0.01),
    ],
)
def test_other_optimizers(optimizer: Any) -> None:
    asked = _step(optimizer, plan=dmc.plan().offload_optimizer())
    shapes = {slot.name: slot.shape for slot in _program(asked).slots if slot.role == "optimizer"}
    # Numbers stay.
    assert set(_waiting(asked)) == {name for name, shape in shapes.items() if shape}
    _assert_trains_alike(_step(optimizer), asked)


def test_with_micro_batches_offloaded_activations_and_an_evaluation() -> None:
    plan = dmc.plan().offload_optimizer().offload("0|1")
    plain, asked = (_step(accumulate=2, evaluation=True, plan=each) for each in (None, plan))
    assert asked.ledger().offloaded and asked.ledger().fetched == (sum(_waiting(asked).values()),)
    assert "optimizer state: 67.58 kB from host memory and back, of each rank" in str(asked.ledger())
    _assert_trains_alike(plain, asked)
    assert float(asked.evaluate(*_batch(7))) == float(plain.evaluate(*_batch(7)))
    _assert_trains_alike(plain, asked)


@pytest.mark.parametrize("zero", [0, pytest.param(1, marks=large), 3])
def test_on_a_mesh(zero: int) -> None:
    split = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp", zero=zero)
    plain, asked = _step(plan=split), _step(plan=split.offload_optimizer())
    assert len(asked.ledger().fetched) == 2
    _assert_trains_alike(plain, asked)


def test_a_loss_that_is_not_finite_leaves_it_unchanged() -> None:
    asked = _step(plan=dmc.plan().offload_optimizer())
    train(asked, _batches(2))
    before = asked.state_dict()
    inputs, targets = _batch(0)
    with pytest.raises(DmcError, match="the loss is nan"):
        float(asked(inputs * torch.inf, targets, check_finite=True))
    assert_same_bits(asked.state_dict(), before)
    plain = _step()
    train(plain, _batches(2))
    _assert_trains_alike(plain, asked)


def test_state_moves_between_steps_and_files(tmp_path: Path) -> None:
    plain, asked = _step(), _step(plan=dmc.plan().offload_optimizer())
    train(plain, _batches(3))
    asked.load_state_dict(plain.state_dict())
    assert_same_bits(asked.state_dict(), plain.state_dict())
    assert all(torch.as_tensor(asked.state_dict()["optimizer"][name]).any() for name in _waiting(asked))
    path = tmp_path / "step.dmc"
    asked.save(path)
    resumed = dmc.load(path)
    assert_same_bits(resumed.state_dict(), plain.state_dict())
    expected = train(plain, _batches(3, 3))
    assert train(asked, _batches(3, 3)) == train(resumed, _batches(3, 3)) == expected
    back = _step()
    back.load_state_dict(resumed.state_dict())
    assert_same_bits(back.state_dict(), plain.state_dict())


def test_several_shapes_share_it() -> None:
    example = [_batch(0), tuple(each[:32] for each in _batch(0))]
    torch.manual_seed(0)
    made = [
        dmc.compile(
            nn.Linear(WIDTH, WIDTH),
            loss=nn.functional.mse_loss,
            optimizer=ADAMW,
            example=example,
            plan=plan,
            verify=False,
        )
        for plan in (None, dmc.plan().offload_optimizer())
    ]
    # Each program puts it back in its place, from the device.
    artifact = made[1].snapshot()
    for job in (artifact.job, *(each.job for each in artifact.programs.values())):
        moves = [each for each in job.programs[0].commands if isinstance(each, Move)]
        assert {each.source.space for each in moves if each.target.space == "host"} == {"device"}
    made[1].load_state_dict(made[0].state_dict())
    batches = [tuple(each[: 64 - 32 * (number % 2)] for each in _batch(number)) for number in range(6)]
    assert train(made[0], batches) == train(made[1], batches)
    assert_same_bits(made[0].state_dict(), made[1].state_dict())


def test_it_is_seen_in_reports() -> None:
    asked = _step(plan=dmc.plan().offload_optimizer())
    memory = asked.memory()
    assert "of host memory" in str(memory) and "optimizer state in host memory, by module" in str(memory)
    assert memory.ranks[0].in_host_memory() == _by_module(_waiting(asked))
    # On the device it is what it is in host memory.
    labels = {buffer.label for buffer in memory.ranks[0].buffers if buffer.category == "optimizer"}
    assert set(_waiting(asked)) <= labels
    gradients = {buffer.label for buffer in memory.ranks[0].buffers if buffer.category == "gradient"}
    plain = {buffer.label for buffer in _step().memory().ranks[0].buffers if buffer.category == "gradient"}
    assert gradients == plain


def _by_module(sizes: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, size in sizes.items():
        found[name[0]] = found.get(name[0], 0) + size
    return found


def test_what_has_no_state_is_refused() -> None:
    with pytest.raises(PlanError, match="'nothing' matches no parameter with optimizer state") as caught:
        _step(plan=dmc.plan().offload_optimizer("nothing"))
    assert caught.value.hint == "there are *.weight [64, 64], *.bias [64]"
    with pytest.raises(PlanError, match="matches no parameter with optimizer state"):
        _step(dmc.optim.SGD(lr=0.1), plan=dmc.plan().offload_optimizer())
