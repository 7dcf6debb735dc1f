"""All ranks of a mesh in this process: they train as one rank does, agree, and keep checkpoints without a mesh."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc._mlir import ir
from dmc.analysis.requests.plan import SYMBOL, write_plan
from dmc.api import CompiledStep
from dmc.dialect.placements import sharding_of
from dmc.dialect.transfers import SHARDING
from dmc.errors import NonFiniteLossError
from dmc.placement.placement import Placement
from dmc.plans import Plan
from dmc.runtime import Artifact, Step
from dmc.step_function import NAME, find_step
from tests.compiled import assert_same_bits, clone_state, compile_case, model_state, train
from tests.large import large, large_unless
from tests.models import build, demo_gpt
from tests.models.case import Case
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS = 3
OPTIMIZER = dmc.optim.SGD(lr=0.1, momentum=0.9, clip_grad_norm=1.0)
DP2 = dmc.Mesh(dp=2)
PLANS = {
    "data_parallel": dmc.plan(DP2).use(dmc.plans.data_parallel("dp")),
    "zero1": dmc.plan(DP2).use(dmc.plans.zero1("dp")),
    "zero3": dmc.plan(DP2).use(dmc.plans.zero3("dp")),
}
WEIGHT, MOMENTUM = "blocks.0.mlp.0.weight", "blocks.0.mlp.0.weight.momentum_buffer"
# How many of the 256 rows of these one rank of two holds.
HELD = {"data_parallel": (256, 256), "zero1": (256, 128), "zero3": (128, 128)}

One = tuple[list[float], dict[str, torch.Tensor], dict[str, torch.Tensor]]


def _gpt() -> Case:
    return demo_gpt.build(0.0, layers=1)


def _compiled(case: Case, plan: Plan, **options: Any) -> Step:
    return compile_case(case, OPTIMIZER, mesh=plan.mesh, plan=plan, **options)


@pytest.fixture(scope="module")
def one_rank() -> One:
    """The losses of one rank, and the model's state before and after."""
    case = _gpt()
    step = compile_case(case, OPTIMIZER)
    losses = train(step, [case.example(seed) for seed in range(STEPS)])
    return losses, clone_state(case.model), model_state(step)


@pytest.mark.parametrize("name", large_unless(("zero1", "zero3"), PLANS))
def test_all_ranks_train_as_one(one_rank: One, name: str) -> None:
    case = _gpt()
    losses, start, expected = one_rank
    step = _compiled(case, PLANS[name])
    assert_losses_close(train(step, [case.example(seed) for seed in range(STEPS)]), losses, TOLERANCE["mesh"])
    assert_states_close(start, model_state(step), expected, TOLERANCE["mesh"])
    assert step.differing_replicas() == ()
    assert step.steps_done == STEPS
    for rank in range(2):
        held = step.rank_state_dict(rank)
        rows = held["model"][WEIGHT].shape[0], held["optimizer"][MOMENTUM].shape[0]
        assert rows == HELD[name]


class Pair(nn.Module):
    """Two layers that a tensor-parallel plan splits, the first by columns and the second by rows."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 8] → f32[batch, 4]."""
        return self.down(self.dropout(torch.tanh(self.up(x))))


def _pair(dropout: float = 0.0) -> Case:
    torch.manual_seed(0)
    return Case("pair", Pair(dropout), _pair_loss, _pair_batch)


def _pair_loss(y: torch.Tensor, target: torch.Tensor) -> Any:
    return ((y - target) ** 2).mean(), {"y": y}


def _pair_batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 8, generator=generator), torch.randn(8, 4, generator=generator)


def _dp4() -> Plan:
    return dmc.plan(dmc.Mesh(dp=4)).use(dmc.plans.zero1("dp"))


def _dp2_tp2() -> Plan:
    plan = dmc.plan(dmc.Mesh(dp=2, tp=2)).use(dmc.plans.zero3("dp"))
    return plan.shard("up.*", dim=0, axis="tp").shard("down.weight", dim=1, axis="tp")


@cache
def _artifact(plan_of: Callable[[], Plan]) -> Artifact:
    case, plan = _pair(), plan_of()
    options: dict[str, Any] = {"loss": case.loss, "optimizer": OPTIMIZER, "example": case.example(0), "verify": False}
    return dmc.compile_artifact(case.model, mesh=plan.mesh, plan=plan, **options)


def _pair_on(plan_of: Callable[[], Plan]) -> Step:
    """The pair as if newly compiled, for `_dp4` or `_dp2_tp2`."""
    return CompiledStep(_artifact(plan_of))


def _train(step: Step, case: Case, seeds: range) -> list[tuple[float, torch.Tensor]]:
    results = [step(*case.example(seed)) for seed in seeds]
    return [(float(loss), torch.tensor(aux["y"].numpy())) for loss, aux in results]


def _assert_close(actual: list[tuple[float, torch.Tensor]], expected: list[tuple[float, torch.Tensor]]) -> None:
    for (loss, y), (one_loss, one_y) in zip(actual, expected, strict=True):
        assert loss == pytest.approx(one_loss, rel=1e-5)
        torch.testing.assert_close(y, one_y, rtol=1e-5, atol=1e-6)


@large
def test_micro_batches_of_one_row_each() -> None:
    # Labels are padded on each rank alike, in a loop.
    plan = dmc.plan(DP2).use(dmc.plans.zero2("dp"))
    batches = [build("llama", 0.0).example(seed) for seed in range(STEPS)]
    expected = train(compile_case(build("llama", 0.0), OPTIMIZER, accumulate=2), batches)
    losses = train(_compiled(build("llama", 0.0), plan, accumulate=2), batches)
    assert_losses_close(losses, expected, TOLERANCE["mesh"])


def test_dropout_draws_what_one_rank_draws() -> None:
    case = _pair(0.5)
    one, four = compile_case(case, OPTIMIZER, seed=7), _compiled(case, _dp2_tp2(), seed=7)
    start = one.state_dict()
    losses = _train(one, case, range(STEPS))
    _assert_close(_train(four, case, range(STEPS)), losses)
    one.load_state_dict({**start, "seed": 8})
    (other, _), *_ = _train(one, case, range(1))
    assert other != pytest.approx(losses[0][0], rel=1e-3), "nothing was dropped"


@large
def test_dropout_has_the_bits_of_one_rank() -> None:
    # On 4 ranks also because IREE binds 32 buffers to a kernel at most: what is computed from the seed is shared.
    plan = dmc.plan(dmc.Mesh(dp=2, tp=2)).use(dmc.plans.zero2("dp")).use(dmc.plans.megatron_gpt2("tp"))
    case = build("gpt2", 0.1)
    start, batches = clone_state(case.model), [case.example(seed) for seed in range(STEPS)]
    one = compile_case(case, OPTIMIZER, seed=7)
    expected = train(one, batches)
    step = _compiled(build("gpt2", 0.1), plan, seed=7)
    assert_losses_close(train(step, batches), expected, TOLERANCE["mesh"])
    assert_states_close(start, model_state(step), model_state(one), TOLERANCE["mesh"])


def test_a_checkpoint_moves_between_meshes() -> None:
    case = _pair()
    one, four, square = (
        compile_case(case, OPTIMIZER),
        _pair_on(_dp4),
        _pair_on(_dp2_tp2),
    )
    _assert_close(_train(four, case, range(3)), _train(one, case, range(3)))
    trained = four.state_dict()
    square.load_state_dict(trained)
    assert_same_bits(square.state_dict(), trained)
    assert square.differing_replicas() == four.differing_replicas() == ()
    assert square.rank_state_dict(3)["model"]["up.weight"].shape == (4, 8)
    one.load_state_dict(square.state_dict())
    _assert_close(_train(square, case, range(3, 6)), _train(one, case, range(3, 6)))
    assert square.differing_replicas() == ()


def test_an_output_may_stay_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmc.compilation.write_plan", _write_plan_with_split_output)
    case = _pair()
    one, step = compile_case(case, OPTIMIZER), _compiled(case, _dp2_tp2())
    assert step.signature.splits["aux0"] == ((("dp", 1),), ())
    _assert_close(_train(step, case, range(2)), _train(one, case, range(2)))


def _write_plan_with_split_output(module: ir.Module, *rest: Any) -> None:
    """What no plan asks for yet: the auxiliary output leaves as the batch came."""
    write_plan(module, *rest)
    step, rows = find_step(module), sharding_of(Placement([["dp"], []]), SYMBOL)
    stated = [
        ir.DictAttr.get({NAME: own[NAME], SHARDING: rows}) if ir.StringAttr(own[NAME]).value == "aux0" else own
        for own in step.operation.attributes["res_attrs"]
    ]
    step.operation.attributes["res_attrs"] = ir.ArrayAttr.get(stated)


def test_each_micro_batch_is_split() -> None:
    case = Case("pair", _pair().model, nn.functional.mse_loss, _pair_batch)
    one, step = compile_case(case, OPTIMIZER, accumulate=2), _compiled(case, _dp2_tp2(), accumulate=2)
    assert step.signature.splits["x"] == ((("dp", 2),), ())
    batches = [_pair_batch(seed) for seed in range(3)]
    assert train(step, batches) == pytest.approx(train(one, batches), rel=1e-5)
    assert step.differing_replicas() == ()


def test_a_repeated_run_gives_the_same_bits() -> None:
    case = _pair()
    runs: list[Any] = []
    for _ in range(2):
        step = _pair_on(_dp2_tp2)
        runs.append(({"loss": [loss for loss, _ in _train(step, case, range(4))]}, step.state_dict()))
    assert runs[0][0] == runs[1][0]
    assert_same_bits(runs[0][1], runs[1][1])


def test_save_load_and_resume_bit_for_bit(tmp_path: Path) -> None:
    case = _pair()
    step = _pair_on(_dp2_tp2)
    _train(step, case, range(2))
    step.save(tmp_path / "step.dmc")
    state = step.state_dict()
    straight = _train(step, case, range(2, 4))
    loaded = dmc.load(tmp_path / "step.dmc")
    assert loaded.signature == step.signature
    assert loaded.signature.mesh == {"dp": 2, "tp": 2}
    assert_same_bits(loaded.state_dict(), state)
    assert [loss for loss, _ in _train(loaded, case, range(2, 4))] == [loss for loss, _ in straight]
    assert_same_bits(loaded.state_dict(), step.state_dict())


def test_a_loss_that_is_not_finite_leaves_every_rank_alone() -> None:
    step = _pair_on(_dp4)
    before = step.state_dict()
    x, y = _pair_batch(0)
    # In the rows of the last rank only.
    x[-1, 0] = float("nan")
    with pytest.raises(NonFiniteLossError):
        step(x, y, check_finite=True)
    assert_same_bits(step.state_dict(), before)
    assert step.differing_replicas() == ()


def test_ranks_that_differ_are_found() -> None:
    step = _pair_on(_dp4)
    assert step.differing_replicas() == ()
    parts = [step.rank_state_dict(rank) for rank in range(4)]
    assert parts[0]["optimizer"]["up.weight.momentum_buffer"].shape == (4, 8)
    # Written past the step's own ways, as a rank that went wrong would.
    specs = [spec.name for spec in step._ranks.linked.state]  # pyright: ignore[reportPrivateUsage]
    arrays = [step._session.read_state(index) for index in range(len(specs))]  # pyright: ignore[reportPrivateUsage]
    arrays[specs.index("down.bias@2")][0] += 1
    step._session.write_state(arrays)  # pyright: ignore[reportPrivateUsage]
    assert step.differing_replicas() == ("down.bias",)
