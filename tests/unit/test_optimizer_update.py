"""The optimizer updates mean what `torch.optim` means by them, step by step, in PyTorch itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dmc import optim
from dmc.importer.update import Update, first_value, trace_update
from dmc.verification.lion import Lion

SHAPES = {"tall": (6, 4), "wide": (3, 7), "vector": (5,), "scalar": (), "kernel": (2, 3, 2, 2)}
RATE, STEPS = 0.05, 7
State = dict[str, Tensor]
Make = Callable[[list[Tensor]], torch.optim.Optimizer]


def _tensors(seed: int, shapes: dict[str, tuple[int, ...]] = SHAPES) -> State:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def _case(kind: str, **options: Any) -> tuple[str, Any, Make]:
    reference: Any = Lion if kind == "Lion" else getattr(torch.optim, kind)
    name = "-".join([kind, *(f"{key}={value}" for key, value in options.items())])
    return name, getattr(optim, kind)(lr=RATE, **options), lambda held: reference(held, lr=RATE, **options)


# eps is large enough to count.
CASES = [
    _case("SGD"),
    _case("SGD", weight_decay=0.1, maximize=True),
    _case("SGD", momentum=0.9, weight_decay=0.1),
    _case("SGD", momentum=0.9, dampening=0.3),
    _case("SGD", momentum=0.9, nesterov=True, weight_decay=0.1),
    _case("Adam", betas=(0.8, 0.95), eps=0.01, weight_decay=0.1),
    _case("Adam", amsgrad=True, maximize=True),
    _case("AdamW", betas=(0.4, 0.95), eps=0.01, weight_decay=0.1),
    _case("AdamW", amsgrad=True),
    _case("Adagrad"),
    _case("Adagrad", lr_decay=0.1, initial_accumulator_value=0.3, eps=0.01, weight_decay=0.1, maximize=True),
    _case("Adadelta", eps=0.01),
    _case("Adadelta", rho=0.7, weight_decay=0.1, maximize=True),
    _case("Adamax", weight_decay=0.1),
    _case("Adamax", betas=(0.8, 0.9), eps=0.01, maximize=True),
    _case("RMSprop", alpha=0.9),
    _case("RMSprop", eps=0.01, weight_decay=0.1, centered=True, maximize=True),
    _case("RMSprop", momentum=0.9, weight_decay=0.1),
    _case("RMSprop", momentum=0.9, centered=True),
    _case("NAdam", weight_decay=0.1),
    _case("NAdam", betas=(0.8, 0.9), eps=0.01, momentum_decay=0.3, maximize=True),
    _case("NAdam", weight_decay=0.1, decoupled_weight_decay=True),
    _case("RAdam", weight_decay=0.1),
    _case("RAdam", betas=(0.8, 0.9), eps=0.01, maximize=True),
    _case("RAdam", betas=(0.8, 0.5)),
    _case("RAdam", weight_decay=0.1, decoupled_weight_decay=True),
    _case("Lion", weight_decay=0.1),
    _case("Lion", betas=(0.4, 0.8), maximize=True),
    _case("Adafactor"),
    _case("Adafactor", weight_decay=0.1, beta2_decay=-0.3, eps=(0.1, 0.5), d=1.5, maximize=True),
]
MATRICES = [
    _case("Muon"),
    _case("Muon", momentum=0.5, nesterov=False, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
    _case("Muon", ns_steps=2, ns_coefficients=(3.0, -4.0, 2.0), eps=0.01, adjust_lr_fn="original"),
]


def _update(plan: optim.Plan, parameters: State) -> tuple[Update, State]:
    """The traced update, and the slots before the first step."""
    update = trace_update(plan, parameters, {}, torch.float32)
    owners = {name: parameters[name.rpartition(".")[0]] for name in update.slots}
    first = {name: first_value(slot, owners[name]) for name, slot in update.slots.items()}
    return update, {name: plan.state.get(name, value).clone() for name, value in first.items()}


def _step(update: Update, values: State, slots: State, gradients: State, count: int, guarded: bool = False) -> None:
    """One step of the compiled update at `RATE`, in place."""
    loss = torch.tensor(float("nan") if guarded else 1.0)
    rates = torch.full((len(_rates(update)),), RATE)
    scalars = (torch.tensor(count), loss, rates, torch.tensor(int(guarded), dtype=torch.int32))
    results = update.graph(*values.values(), *gradients.values(), *slots.values(), *scalars)
    values.update(zip(values, results, strict=False))
    slots.update(zip(slots, results[len(values) :], strict=False))


def _rates(update: Update) -> Tensor:
    *_, rates, _ = (node.meta["val"] for node in update.graph.graph.nodes if node.op == "placeholder")
    return rates


def _assert_as_torch(
    given: Any, make: list[Make], shapes: dict[str, tuple[int, ...]], rtol: float, scale: float = 1.0
) -> None:
    values = _tensors(99, shapes)
    held = {name: tensor.clone().requires_grad_() for name, tensor in values.items()}
    references = [each(list(held.values())) for each in make]
    update, slots = _update(optim.plan(given, held), values)
    for step in range(STEPS):
        gradients = {name: scale * gradient for name, gradient in _tensors(step, shapes).items()}
        _step(update, values, slots, gradients, step)
        for name, gradient in gradients.items():
            held[name].grad = gradient.clone()
        for each in references:
            each.step()
    expected = {name: tensor.detach() for name, tensor in held.items()}
    for name, tensor in held.items():
        expected |= {f"{name}.{slot}": value for each in references for slot, value in each.state[tensor].items()}
    actual = {**values, **slots}
    assert actual.keys() == {name for name in expected if not name.endswith(".step")}
    for name, tensor in actual.items():
        torch.testing.assert_close(tensor, expected[name], rtol=rtol, atol=rtol)


@pytest.mark.parametrize(("name", "own", "make"), CASES, ids=[case[0] for case in CASES])
def test_agrees_with_torch(name: str, own: Any, make: Make) -> None:
    _assert_as_torch(own, [make], SHAPES, 1e-5)


LARGE = [_case(kind) for kind in ("Adam", "NAdam", "RMSprop", "Adadelta")]


@pytest.mark.parametrize(("name", "own", "make"), LARGE, ids=[case[0] for case in LARGE])
def test_a_square_is_scaled_before_it_overflows(name: str, own: Any, make: Make) -> None:
    _assert_as_torch(own, [make], SHAPES, 1e-4, 2.5e19)


@pytest.mark.parametrize(("name", "own", "make"), MATRICES, ids=[case[0] for case in MATRICES])
def test_of_matrices(name: str, own: Any, make: Make) -> None:
    # bf16 inside: the order of a sum decides how it is rounded.
    _assert_as_torch(own, [make], {name: SHAPES[name] for name in ("tall", "wide")}, 2e-2)


@pytest.mark.parametrize("count", [1, 4, 5, 6, 7, 100, 999, 1000, 1001, 100_000])
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.8, 0.99, 0.999, 0.9999])
def test_the_length_of_radams_average(beta: float, count: int) -> None:
    longest = 2 / (1 - beta) - 1
    exact = longest - 2 * count * beta**count / (1 - beta**count)
    length = optim.RAdam(betas=(0.9, beta)).average_length(torch.tensor(float(count)))
    assert float(length) == pytest.approx(exact, rel=1e-5)


def test_where_it_does_not_apply_everything_stays() -> None:
    for _, own, _ in CASES:
        values = _tensors(99)
        update, slots = _update(optim.plan(own, values), values)
        before = {**values, **slots}
        _step(update, values, slots, _tensors(0), 3, guarded=True)
        after = {**values, **slots}
        assert all(torch.equal(before[name], after[name]) for name in before)
    dmc, old, new = torch.ops.dmc, torch.ones(3), torch.zeros(3)
    assert torch.equal(dmc.optimizer_update_keep(old, new, torch.tensor(False)), old)
    assert torch.equal(dmc.optimizer_update_keep(old, new, torch.tensor(True)), new)


def test_bf16_is_updated_in_f32() -> None:
    own = optim.Adam(lr=RATE, weight_decay=0.1)
    narrow = {name: tensor.bfloat16() for name, tensor in _tensors(99).items()}
    wide = {name: tensor.float() for name, tensor in narrow.items()}
    gradients = {name: tensor.bfloat16() for name, tensor in _tensors(0).items()}
    for values in (narrow, wide):
        update, slots = _update(optim.plan(own, values), values)
        _step(update, values, slots, {name: each.to(values[name].dtype) for name, each in gradients.items()}, 0)
    assert all(torch.equal(narrow[name], wide[name].bfloat16()) for name in narrow)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_state_begins_with_zeros(dtype: torch.dtype) -> None:
    for shape in ((3, 2), ()):
        zeros = first_value(optim.Slot("momentum", shape), torch.ones(shape, dtype=dtype))
        assert zeros.dtype == dtype
        assert torch.equal(zeros, torch.zeros(shape, dtype=dtype))


def test_zeros_take_no_memory_until_they_are_written() -> None:
    count = 1 << 26
    before = _resident()
    zeros = first_value(optim.Slot("momentum", (count,)), torch.ones([]).expand(count))
    assert zeros.numel() == count
    assert _resident() - before < count


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
