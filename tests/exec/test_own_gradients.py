"""Gradients that a model takes inside the step: penalties, inner loops, forces; compiled as eager takes them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func, nn
from torch.autograd.functional import hvp, jacobian
from torch.func import functional_call
from torch.nn import functional

import dmc
from dmc import plans
from tests.interpreted import assert_refused, assert_trains_as_eager
from tests.two_layers import WIDTH, Model, batches, mse


def _of_a_result(m: Model, h: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad(h.square().sum(), h, create_graph=True)
    return h + slope.sin()


def _constant(m: Model, h: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad(m.second(h.tanh()).sum(), h, retain_graph=True)
    return h + slope


def _inner_step(m: Model, h: Tensor) -> Tensor:
    weight, bias = m.second.weight, m.second.bias
    slopes = torch.autograd.grad(m.second(h).tanh().square().mean(), (weight, bias), create_graph=True)
    return functional.linear(h, weight - 0.1 * slopes[0], bias - 0.1 * slopes[1])


def _descent(m: Model, h: Tensor) -> Tensor:
    z = h.detach()
    for _ in range(3):
        z.requires_grad_()
        z = (z - 0.1 * torch.autograd.grad(m.second(z).tanh().sum(), z)[0]).detach()
    return h + z


def _without_gradient(m: Model, h: Tensor) -> Tensor:
    with torch.no_grad():
        with torch.enable_grad():
            z = h.clone().requires_grad_()
            slope = torch.autograd.grad(m.second(z).sin().sum(), z)[0]
        z = z - 0.1 * slope
    return h + z


def _adversarial(m: Model, h: Tensor) -> Tensor:
    away = torch.zeros_like(h, requires_grad=True)
    return h + 0.1 * torch.autograd.grad(m.second(h + away).square().sum(), away)[0].sign()


def _weighted(m: Model, h: Tensor) -> Tensor:
    y, unused = m.second(h).sin(), torch.ones(2, requires_grad=True)
    weights = torch.linspace(0.0, 1.0, y.numel()).view(y.shape)
    slopes = torch.autograd.grad([y, h.sum()], [h, unused], [weights, None], create_graph=True, materialize_grads=True)
    return h + 0.1 * (slopes[0] + slopes[1].mean())


def _third(m: Model, h: Tensor) -> Tensor:
    x = h.detach().requires_grad_()
    (one,) = torch.autograd.grad(m.second(x).tanh().sum(), x, create_graph=True)
    (two,) = torch.autograd.grad(one.sum(), x, create_graph=True)
    return h + two


def _hessian_times_vector(m: Model, h: Tensor) -> Tensor:
    found: Any = hvp(lambda x: m.second(x.sin()).square().sum(), h, h.detach().cos(), create_graph=True)
    return h + found[1]


def _jacobian(m: Model, h: Tensor) -> Tensor:
    return h + jacobian(lambda x: m.second(x).tanh(), h[0], create_graph=True).sum()


def _own_variable(m: Model, h: Tensor) -> Tensor:
    table = functional.embedding(torch.tensor([1, 0, 1, 2]), m.second.weight, padding_idx=0)
    (slope,) = torch.autograd.grad((table * h).tanh().sum(), m.second.weight, create_graph=True)
    return h + slope.square().sum()


def _solved(m: Model, h: Tensor) -> Tensor:
    x = h.detach().requires_grad_()
    solution = torch.linalg.solve(m.first.weight + 4.0 * torch.eye(WIDTH), x.mT)
    (slope,) = torch.autograd.grad(solution.square().sum(), x, create_graph=True)
    return h + slope


def _by_function(m: Model, h: Tensor) -> Tensor:
    def energy(weights: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return functional_call(m.second, weights, (x,)).tanh().square().sum(), x.cos()

    weights = dict(m.second.named_parameters())
    (of_weights, of_h), (value, cosine) = func.grad_and_value(energy, (0, 1), has_aux=True)(weights, h)
    twice = func.grad(func.grad(lambda t: (t * h.mean()).sin()))(h.detach().mean())
    stepped = {name: tensor - 0.1 * of_weights[name] for name, tensor in weights.items()}
    return functional_call(m.second, stepped, (h,)) + 0.1 * (of_h + value * cosine + twice)


def _by_function_without_gradient(m: Model, h: Tensor) -> Tensor:
    with torch.no_grad():
        slopes: Any = func.grad(lambda w, x: (m.second(x) @ w).tanh().sum(), (0, 1))(m.second.weight, h)
        pulled: Any = func.vjp(lambda x: m.second(x).sin(), h)
        slope = pulled[1](torch.ones_like(h))[0]
    return h + 0.1 * (slopes[0].mean() + slopes[1] + slope + pulled[0])


def _pulled_back(m: Model, h: Tensor) -> Tensor:
    pulled: Any = func.vjp(lambda x, w: (x @ w, x.sin()), h, m.second.weight)
    (y, z), pull = pulled
    slopes = pull((y.detach().cos(), z.detach()))
    return h + 0.1 * (slopes[0] + slopes[1].mean())


def _row_by_row(m: Model, h: Tensor) -> Tensor:
    rows: Any = func.jacrev(lambda w, x: (x @ w).tanh(), argnums=1, chunk_size=1)(m.second.weight, h[0])
    return h + 0.1 * rows.square().sum(0)


TAKEN = {
    each.__name__.removeprefix("_"): each
    for each in (
        _of_a_result,
        _constant,
        _inner_step,
        _descent,
        _without_gradient,
        _adversarial,
        _weighted,
        _third,
        _hessian_times_vector,
        _jacobian,
        _own_variable,
        _solved,
        _by_function,
        _by_function_without_gradient,
        _pulled_back,
        _row_by_row,
    )
}


@pytest.mark.parametrize("name", TAKEN)
def test_gradients_are_taken_as_in_eager(context: Any, name: str) -> None:
    torch.manual_seed(0)
    assert_trains_as_eager(context, Model(TAKEN[name]), mse, batches())


class Forces(nn.Module):
    """Minus the slope of an energy in its own input."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        """f32[N, WIDTH] → f32[N, WIDTH]."""
        x.requires_grad_(True)
        return -torch.autograd.grad(self.energy(x).sum(), x, create_graph=True)[0]


def test_a_gradient_of_the_batch_itself_by_micro_batches(context: Any) -> None:
    torch.manual_seed(0)
    assert_trains_as_eager(context, Forces(), mse, batches(), accumulate=2)


def test_on_a_mesh() -> None:
    torch.manual_seed(0)
    model, (example, *_) = Model(_inner_step), batches()
    mesh = dmc.Mesh(dp=2)
    plan = dmc.plan(mesh).use(plans.data_parallel("dp"))
    options: dict[str, Any] = {"loss": mse, "optimizer": dmc.optim.SGD(lr=0.1), "example": example}
    step = dmc.compile(model, mesh=mesh, plan=plan, verify=True, **options)
    assert float(step(*example)) == pytest.approx(float(dmc.compile(model, **options)(*example)), rel=1e-5)


def _unused(m: Model, h: Tensor) -> Tensor:
    other = torch.ones(2, requires_grad=True)
    return h + torch.autograd.grad(h.sum(), [h, other], create_graph=True, allow_unused=True)[0]


def _in_batches(m: Model, h: Tensor) -> Tensor:
    ways = torch.eye(h.numel()).view(-1, *h.shape)
    return h + torch.autograd.grad(h.sin(), h, ways, create_graph=True, is_grads_batched=True)[0].sum(0)


def _by_rows(m: Model, h: Tensor) -> Tensor:
    return h + func.jacrev(lambda x: m.second(x).tanh())(h[0]).sum()


def _forward_mode(m: Model, h: Tensor) -> Tensor:
    result: Any = func.jvp(lambda x: m.second(x).tanh(), (h,), (torch.ones_like(h),))
    return h + result[1]


def _per_sample(m: Model, h: Tensor) -> Tensor:
    slopes: Any = func.vmap(func.grad(lambda w, x: (x @ w).sin().sum()), (None, 0))(m.second.weight, h)
    return h + slopes.sum()


def _of_a_constant(m: Model, h: Tensor) -> Tensor:
    mean: Any = m.norm.running_mean
    return h + torch.autograd.grad(m.second(h).sum(), mean, materialize_grads=True)[0]


def _accumulated(m: Model, h: Tensor) -> Tensor:
    h.sum().backward()
    return h


REFUSED: dict[str, tuple[Callable[[Model, Tensor], Tensor], str]] = {
    "unused": (_unused, "is None: nothing depends on its tensor"),
    "in batches": (_in_batches, "takes gradients in batches"),
    "by rows": (_by_rows, r"takes a gradient inside torch\.vmap"),
    "forward mode": (_forward_mode, r"a transform of torch\.func that differentiates in forward mode"),
    "per sample": (_per_sample, r"takes a gradient inside torch\.vmap"),
    "of a constant": (_of_a_constant, "does not require grad"),
    "accumulated": (_accumulated, "accumulates gradients inside the step"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_compiled_is_refused(context: Any, name: str) -> None:
    between, fact = REFUSED[name]
    assert_refused(context, Model(between), fact, mse, batches()[0])


class Adversaries(nn.Module):
    """A critic that the model trains itself, by gradients of its own, and a generator that the optimizer trains."""

    def __init__(self) -> None:
        super().__init__()
        self.make, self.judge = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, z: Tensor, real: Tensor) -> Tensor:
        fake, named = self.make(z), dict(self.judge.named_parameters())
        score = functional.softplus(-self.judge(real)) + functional.softplus(self.judge(fake.detach()))
        slopes = torch.autograd.grad(score.mean(), tuple(named.values()))
        with torch.no_grad():
            new = {name: p - 0.1 * slope for (name, p), slope in zip(named.items(), slopes, strict=True)}
        loss = functional.softplus(-functional_call(self.judge, new, (fake,))).mean()
        with torch.no_grad():
            for name, p in named.items():
                p.copy_(new[name])
        return loss


def test_a_model_updates_parameters_by_its_own_gradients() -> None:
    torch.manual_seed(0)
    model, batch = Adversaries(), (torch.randn(8, 3), torch.randn(8, 4))
    eager, given = copy.deepcopy(model), torch.optim.SGD(model.make.parameters(), lr=0.1)
    optimizer = torch.optim.SGD(eager.make.parameters(), lr=0.1)
    step = dmc.compile(model, optimizer=given, example=batch, verify=False, progress=False)
    for _ in range(3):
        loss = float(step(*batch))
        optimizer.zero_grad()
        expected = eager(*batch)
        expected.backward()
        optimizer.step()
        assert loss == pytest.approx(expected.item(), rel=1e-5)
    for name, value in step.state_dict()["model"].items():
        torch.testing.assert_close(value, eager.state_dict()[name], rtol=1e-5, atol=1e-6)
