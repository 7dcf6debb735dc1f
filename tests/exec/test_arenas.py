"""State in arenas: tensors of odd shapes and uses train as in PyTorch eager, and come back out of their arena."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter

import dmc
from tests.compiled import assert_same_bits, clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer
from tests.large import large
from tests.models.case import Case
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS = 4
ROWS, INPUTS, OUTPUTS = 8, 4, 3


class Model(nn.Module):
    """A linear layer and further tensors, and what `forward` makes of them."""

    def __init__(self, run: Callable[[Any, Tensor], Any], **tensors: Tensor) -> None:
        super().__init__()
        self.linear = nn.Linear(INPUTS, OUTPUTS)
        self.run = run
        for name, tensor in tensors.items():
            if isinstance(tensor, Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Any:
        """f32[ROWS, INPUTS] → f32[ROWS, OUTPUTS], and more where `run` gives more."""
        return self.run(self, x)


def _example(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, INPUTS, generator=generator), torch.randn(ROWS, OUTPUTS, generator=generator)


def _keeps_buffers(self: Any, x: Tensor) -> Tensor:
    """Buffers that take over parameters, the batch and each other, and types that no optimizer updates."""
    y = self.linear(x) + self.seen.sum() * 0.1 + self.left.clone()
    self.seen.copy_(self.linear.weight.detach())
    self.turned.copy_(self.linear.weight.detach().t())
    self.first.copy_(x[0])
    left = self.left.clone()
    self.left.copy_(self.right)
    self.right.copy_(left)
    self.odd.logical_not_()
    self.count.add_(1)
    return y


def _mean_is_gradient(self: Any, x: Tensor) -> Tensor:
    """The new value of a buffer is also the gradient of a parameter."""
    mean = x.mean(0)
    self.mean.copy_(mean)
    self.far.add_(100.0)
    return (self.weight * mean).sum() + 0.0 * self.linear(x)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "number": lambda: Model(lambda self, x: self.linear(x) * self.scale, scale=Parameter(torch.tensor(0.5))),
    "no-elements": lambda: Model(
        lambda self, x: x[:, :OUTPUTS] * self.full.mean() + self.none.sum(),
        # It fills the arena to its end, where the other would start.
        full=Parameter(torch.randn(1024)),
        none=Parameter(torch.empty(0, 3)),
    ),
    "buffers": lambda: Model(
        _keeps_buffers,
        seen=torch.zeros(OUTPUTS, INPUTS),
        turned=torch.zeros(INPUTS, OUTPUTS),
        first=torch.zeros(INPUTS),
        left=torch.randn(OUTPUTS),
        right=torch.randn(OUTPUTS),
        odd=torch.tensor(False),
        count=torch.tensor([5]),
    ),
    "optimizer-only": lambda: Model(lambda self, x: self.linear(x) + 0 * self.idle, idle=Parameter(torch.randn(3))),
    "gradient-is-a-buffer": lambda: Model(
        _mean_is_gradient,
        weight=Parameter(torch.randn(INPUTS)),
        mean=torch.zeros(INPUTS),
        far=torch.zeros(OUTPUTS),
    ),
}


def _mse(output: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(output.expand_as(targets), targets)


def _case(make: Callable[[], nn.Module]) -> Case:
    torch.manual_seed(0)
    return Case("arenas", make(), _mse, _example)


# Micro-batches matter to what `forward` changes.
QUICK = {(name, 1) for name in MODELS} | {("buffers", 2)}


@pytest.mark.parametrize(
    ("name", "accumulate"),
    [pytest.param(*each, marks=() if each in QUICK else large) for each in itertools.product(MODELS, (1, 2))],
)
def test_agrees_with_eager_and_survives_a_file(name: str, accumulate: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    own = dmc.optim.SGD(**options, clip_grad_norm=0.5)
    step = _compare(_case(MODELS[name]), own, lambda m: torch.optim.SGD(m.parameters(), **options), accumulate)
    step.save(tmp_path / "step.dmc")
    assert_same_bits(dmc.load(tmp_path / "step.dmc").state_dict(), step.state_dict())
    start = {**step.state_dict(), "step": 7}
    step.load_state_dict(start)
    assert_same_bits(step.state_dict(), start)


def test_two_groups_whose_parameters_have_one_gradient() -> None:
    def sum_of_two(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x[:, :OUTPUTS] + self.a + self.b + 0 * self.linear(x)

    def model() -> nn.Module:
        return Model(sum_of_two, a=Parameter(torch.randn(OUTPUTS)), b=Parameter(torch.randn(OUTPUTS)))

    def reference(model: nn.Module) -> torch.optim.Optimizer:
        named = dict(model.named_parameters())
        alone = {"params": [named.pop("a")], "weight_decay": 0.1}
        return torch.optim.SGD([{"params": list(named.values())}, alone], lr=0.1)

    own = dmc.optim.SGD(lr=0.1, groups=[dmc.optim.Group("a", weight_decay=0.1)], clip_grad_norm=0.5)
    _compare(_case(model), own, reference)


def test_parameters_named_as_arenas_might_be() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.arena = nn.ParameterList([torch.randn(INPUTS, OUTPUTS), torch.randn(OUTPUTS)])

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.arena[0] + self.arena[1]

    own = dmc.optim.AdamW(lr=1e-2, weight_decay=0.1, clip_grad_norm=0.5)
    _compare(_case(Named), own, lambda m: torch.optim.AdamW(m.parameters(), lr=1e-2, weight_decay=0.1))


# Without micro-batches, it is in test_runtime_step.
@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=large), 2])
def test_a_bad_batch_leaves_parameters_and_buffers_alone(accumulate: int) -> None:
    case = _case(lambda: nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.BatchNorm1d(OUTPUTS)))
    step = compile_case(case, dmc.optim.SGD(lr=0.1), accumulate=accumulate)
    train(step, [case.example(0)])
    before = step.state_dict()
    x, targets = _example(1)
    with pytest.raises(dmc.errors.NonFiniteLossError):
        step(x * float("nan"), targets, check_finite=True)
    assert_same_bits(step.state_dict(), before)


OUTPUTS_OF_ARGUMENTS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "parameter": lambda self, x: self.linear.weight,
    "reshaped-parameter": lambda self, x: self.linear.weight.flatten(),
    "part-of-parameter": lambda self, x: self.linear.weight[1],
    "input": lambda self, x: x,
    "reshaped-input": lambda self, x: x.flatten(),
    "buffer": lambda self, x: self.table,
}


def test_outputs_keep_what_they_held() -> None:
    torch.manual_seed(0)
    picks = list(OUTPUTS_OF_ARGUMENTS.values())
    model = Model(lambda self, x: (self.linear(x), [pick(self, x) for pick in picks]), table=torch.randn(5))
    reference = copy.deepcopy(model)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    step = dmc.compile(
        model,
        loss=lambda output, targets: (_mse(output[0], targets), output[1]),
        optimizer=dmc.optim.SGD(lr=0.1),
        example=_example(0),
    )
    # Read when all steps have been issued: by then state and batch have been overwritten.
    outputs = [step(*_example(seed))[1] for seed in range(STEPS)]
    state = step.state_dict()
    state["model"] = {key: torch.zeros_like(value) for key, value in state["model"].items()}
    step.load_state_dict(state)
    for seed, given in enumerate(outputs):
        x, targets = _example(seed)
        for (name, pick), output in zip(OUTPUTS_OF_ARGUMENTS.items(), given, strict=True):
            expected = pick(reference, x).detach()
            actual = torch.from_numpy(output.numpy().copy())
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6, msg=f"{name}, step {seed}")
        optimizer.zero_grad()
        _mse(reference(x)[0], targets).backward()
        optimizer.step()


def _compare(
    case: Case, own: Any, reference: Callable[[nn.Module], torch.optim.Optimizer], accumulate: int = 1
) -> dmc.runtime.Step:
    eager = copy.deepcopy(case.model)
    start = clone_state(case.model)
    step = compile_case(case, own, accumulate=accumulate)
    trainer = EagerTrainer(eager, case.loss, reference(eager), clip_grad_norm=0.5, accumulate=accumulate)
    batches = [case.example(seed) for seed in range(STEPS)]
    losses = train(step, batches)
    assert_losses_close(losses, [trainer.step(batch) for batch in batches], TOLERANCE["fp32"])
    assert_states_close(start, model_state(step), eager.state_dict(), TOLERANCE["fp32"])
    return step
