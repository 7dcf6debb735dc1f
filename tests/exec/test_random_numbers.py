"""Random numbers that a model draws: eager's step with the same draws, on every mesh, and new ones in each step."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.verification.draws import Draws
from tests.eager import EagerTrainer
from tests.generated_regions import assert_right, regions_of
from tests.interpreted import RATE, InterpretedStep
from tests.kernels import form_kernels
from tests.large import large
from tests.tolerance import TOLERANCE, assert_losses_close

ROWS, WIDTH = 4, 6
Function = Callable[[Tensor], Tensor]
Pair = tuple[Tensor, Tensor]


def _filled(method: str, *options: float) -> Function:
    return lambda h: h * getattr(torch.empty_like(h), method)(*options)


def _normal(h: Tensor, **options: Any) -> torch.distributions.Normal:
    return torch.distributions.Normal(h, h.exp(), **options)


def _kept_rows(h: Tensor) -> Tensor:
    """Stochastic depth, as torchvision's."""
    return h * torch.empty(ROWS, 1).bernoulli_(0.75).div_(0.75)


def _noisy(h: Tensor) -> Tensor:
    """The forward process of diffusion, at a random time for each row."""
    time = torch.randint(0, 10, (ROWS,))
    share = torch.linspace(0.1, 0.9, 10)[time].unsqueeze(1)
    return share.sqrt() * h + (1 - share).sqrt() * torch.randn_like(h)


def _mixed_up(h: Tensor) -> Tensor:
    """Rows mixed with those of a permutation."""
    share = torch.empty([]).uniform_(0.2, 0.8)
    return share * h + (1 - share) * h[torch.randperm(ROWS)]


KINDS: dict[str, list[Function]] = {
    "uniform": [
        lambda h: h * torch.rand(ROWS, WIDTH),
        lambda h: h * torch.rand_like(h),
        lambda h: h * torch.rand_like(h, dtype=torch.bfloat16).float(),
        _filled("uniform_", -1.0, 2.0),
        lambda h: functional.rrelu(h, training=True) + functional.rrelu(h),
        lambda h: functional.dropout(h, 0.3) * torch.rand_like(h) * functional.dropout(h, 0.2),
        lambda h: torch.ops.aten.rrelu_with_noise(h, torch.empty_like(h), 0.1, 0.3, False) * torch.rand(WIDTH),
        # Laid out like its operand.
        lambda h: (h.view(-1) * torch.rand_like(h.t()).t().view(-1)).view_as(h),
        # Neither draws.
        lambda h: h * torch.native_dropout(h, 1.0, True)[0] + torch.native_dropout(h[:0], 0.5, True)[0].sum(),
        lambda h: h * torch.rand_like(h) + functional.dropout2d(h.view(2, 2, 3, 2)[:, :, :0], 0.3).sum(),
    ],
    "normal": [
        lambda h: h + torch.randn(ROWS, WIDTH),
        lambda h: h + torch.randn_like(h) * h.sigmoid(),
        _filled("normal_", 1.0, 2.0),
        _filled("log_normal_", 0.0, 0.5),
        lambda h: h * torch.normal(h, h.sigmoid()),
        lambda h: h * torch.normal(h, 2.0),
        lambda h: h * torch.normal(1.0, h.sigmoid()),
        lambda h: h * torch.normal(1.0, 2.0, (ROWS, WIDTH)),
        # Of the type of the means.
        lambda h: h * (torch.normal(h.bfloat16(), h.exp()) @ torch.eye(WIDTH).bfloat16()).float(),
    ],
    "tails": [
        _filled("exponential_", 2.0),
        _filled("cauchy_"),
        _filled("geometric_", 0.3),
        functional.gumbel_softmax,
        lambda h: functional.gumbel_softmax(h, hard=True),
    ],
    "integers": [
        lambda h: h * torch.randint(5, (ROWS, WIDTH)),
        lambda h: h * torch.randint(-3, 5, (ROWS, 1)),
        lambda h: h * torch.randint_like(h, 3),
        lambda h: h * torch.randint_like(h, -2, 3),
        lambda h: h * torch.randint(5, (WIDTH,), dtype=torch.int8) * torch.randint(5, (WIDTH,), dtype=torch.uint8),
        _filled("random_", 7),
        _mixed_up,
    ],
    "coins": [
        _filled("bernoulli_", 0.3),
        _filled("bernoulli_", 1.0),
        _filled("bernoulli_", 0.0),
        lambda h: h * torch.bernoulli(h.sigmoid()),
        lambda h: h * torch.bernoulli(h.detach(), 0.4),
        lambda h: h * torch.empty_like(h).bernoulli_(h.sigmoid()),
        _kept_rows,
    ],
    "choices": [
        lambda h: h.gather(1, torch.multinomial(h.softmax(-1), 1)).expand_as(h),
        lambda h: h.gather(1, torch.multinomial(h.softmax(-1), WIDTH)),
        lambda h: h.gather(1, torch.multinomial(h.softmax(-1), WIDTH, replacement=True)),
        lambda h: h.gather(1, torch.distributions.Categorical(logits=h).sample()[:, None]).expand_as(h),
    ],
    "models": [
        lambda h: _normal(h).rsample(),
        lambda h: h * _normal(h, validate_args=False).sample(),
        _noisy,
    ],
}


class Drawing(nn.Module):
    """Functions of a layer's output, one below the other."""

    def __init__(self, functions: list[Function]) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.functions = functions

    def forward(self, x: Tensor) -> Tensor:
        """f32[rows, width] → f32[functions · rows, width]."""
        h = self.linear(x)
        return torch.cat([function(h) for function in self.functions])


def _loss(y: Tensor, target: Tensor) -> Tensor:
    return functional.smooth_l1_loss(y, target.repeat(y.shape[0] // target.shape[0], 1))


def _model(functions: list[Function]) -> Drawing:
    torch.manual_seed(0)
    return Drawing(functions)


def _batches(steps: int) -> list[Pair]:
    torch.manual_seed(1)
    return [(torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)) for _ in range(steps)]


def _eager(model: nn.Module, batches: list[Pair], seed: int = 0) -> list[float]:
    """Eager's losses with the draws of a step."""
    model = copy.deepcopy(model)
    trainer = EagerTrainer(model, _loss, torch.optim.SGD(model.parameters(), lr=RATE))
    losses: list[float] = []
    for counter, batch in enumerate(batches):
        with Draws(seed, counter):
            losses.append(trainer.step(batch))
    return losses


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_eagers_with_the_same_draws(context: Any, kind: str) -> None:
    model, batches = _model(KINDS[kind]), _batches(3)
    step = InterpretedStep(context, model, _loss, batches[0])
    assert_losses_close([step(*batch) for batch in batches], _eager(model, batches), TOLERANCE["fp32"])


def _compiled(mesh: int = 1, seed: int = 7, **options: Any) -> Any:
    plan = None if mesh == 1 else dmc.plan(dmc.Mesh(dp=mesh)).use(dmc.plans.data_parallel("dp"))
    model = _model([_noisy, _mixed_up, _kept_rows, *KINDS["tails"]])
    optimizer = dmc.optim.SGD(lr=RATE)
    return dmc.compile(
        model, loss=_loss, optimizer=optimizer, example=_batches(1)[0], plan=plan, seed=seed, verify=True, **options
    )


def test_compiled_steps_draw_anew() -> None:
    step, (batch,) = _compiled(), _batches(1)
    start = step.state_dict()
    losses = [float(step(*batch)) for _ in range(3)]
    assert losses == pytest.approx(_eager(_model([_noisy, _mixed_up, _kept_rows, *KINDS["tails"]]), [batch] * 3, 7))
    step.load_state_dict(start)
    assert [float(step(*batch)) for _ in range(3)] == losses
    step.load_state_dict({**start, "seed": 8})
    assert float(step(*batch)) != pytest.approx(losses[0], rel=1e-3)


@large
def test_ranks_draw_what_one_rank_draws() -> None:
    batches = _batches(2)
    one, two = _compiled(), _compiled(mesh=2)
    assert_losses_close([two(*each) for each in batches], [one(*each) for each in batches], TOLERANCE["mesh"])


def test_parameters_of_a_distribution_are_checked_in_each_step(context: Any) -> None:
    def drawn(h: Tensor) -> Tensor:
        return torch.distributions.Normal(h, h.exp() - 0.01).rsample()

    model, (batch,) = _model([drawn]), _batches(1)
    x, target = batch
    step = InterpretedStep(context, model, _loss, batch)
    assert math.isfinite(step(x, target))
    assert math.isnan(step(x - 100.0, target))


@pytest.mark.parametrize(
    "draw",
    [
        lambda h: h * torch.bernoulli(h.detach() / 500.0 + 0.5),
        lambda h: h * torch.normal(h.detach(), h.detach() + 50.0),
        lambda h: h * torch.multinomial(h.detach() + 50.0, 1),
    ],
    ids=["bernoulli", "normal", "multinomial"],
)
def test_so_are_those_of_an_operation(context: Any, draw: Function) -> None:
    model, (batch,) = _model([draw]), _batches(1)
    x, target = batch
    step = InterpretedStep(context, model, _loss, batch)
    assert math.isfinite(step(x, target))
    assert math.isnan(step(x * 1e6, target))


class Skipping(nn.Module):
    """Decides by a draw, in Python, whether a layer is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x if torch.rand([]) < 0.1 else self.linear(x)


def _seeded(h: Tensor) -> Tensor:
    torch.manual_seed(3)
    return h * torch.rand_like(h)


def _forked(h: Tensor) -> Tensor:
    with torch.random.fork_rng():
        first = torch.rand_like(h)
    return h * (first - torch.rand_like(h))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_model([lambda h: h * torch.poisson(h.exp())]), r"aten\.poisson: draws random numbers in a way that is not"),
        (_model([lambda h: h * torch.rand(WIDTH, generator=torch.Generator())]), r"a Generator\n.*draws by its seed"),
        (_model([_filled("bernoulli_", 1e-7)]), r"drops with probability 0\.9999999, which rounds to 1"),
        (_model([lambda h: h * torch.randint(1 << 40, (ROWS, 1))]), r"draws from 1,099,511,627,776 integers"),
        (_model([_filled("bernoulli_", 1.5)]), r"draws with probability 1\.5"),
        (_model([_filled("exponential_", -1.0)]), "expects lambda > 0"),
        (_model([torch.vmap(lambda row: row * torch.rand(WIDTH), randomness="different")]), "inside torch.vmap"),
        (_model([torch.vmap(functional.dropout, randomness="same")]), "inside torch.vmap"),
        (_model([_seeded]), "calls torch.manual_seed, on which"),
        (_model([_forked]), "calls torch.random.fork_rng, on which"),
        (Skipping(), "decides by the numbers of a tensor"),
    ],
)
def test_what_cannot_be_drawn_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(dmc.errors.DmcError, match=message):
        dmc.compile(model, loss=_loss, optimizer=dmc.optim.SGD(lr=RATE), example=_batches(1)[0])
    # Nothing of the attempt is left.
    torch.ones(2, requires_grad=True).sum().backward()


def test_generated_kernels_draw_the_same(context: Any) -> None:
    model = _model([_noisy, _kept_rows, *KINDS["uniform"][:2], *KINDS["tails"]])
    step = import_step(model, _loss, dmc.optim.SGD(lr=RATE), _batches(1)[0], Precision.FP32, 1, 0, context)
    form_kernels(step.module)
    names = list(regions_of(step.module))
    assert len(names) > 10
    for name in names:
        assert_right(step.module, name)
