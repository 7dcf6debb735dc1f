"""The kernels of cross entropy in Triton's interpreter, against their float64 references and PyTorch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import Parameter, Problem, TensorType, problem
from dmc.kernels.references.draws import Draws
from tests.interpreted_kernels import FEW, SCALAR, assert_right, f32
from tests.triton_interpreter import interpret


def cross_entropy(rows: int, classes: int, dtype: str, **options: Parameter) -> tuple[Problem, ...]:
    logits, target, level = TensorType(dtype, (rows, classes), (classes + 5, 1)), TensorType("i64", (rows,)), f32(rows)
    options = {"ignore_index": 1, "label_smoothing": 0.0, **options}
    name = "softmax_cross_entropy"
    return (
        problem(name, (logits, target), (SCALAR, level), **options),
        problem(f"{name}_backward", (SCALAR, logits, target, level), (logits,), **options),
        problem(f"{name}_both", (SCALAR, logits, target), (SCALAR, level, logits), **options),
    )


@FEW
@given(
    st.integers(2, 7),
    st.sampled_from([3, 8, 4096, 4099, 5000, 16390]),
    st.sampled_from(["f32", "bf16"]),
    st.sampled_from([0.0, 0.1]),
)
def test_cross_entropy(rows: int, classes: int, dtype: str, smoothing: float) -> None:
    for each in cross_entropy(rows, classes, dtype, label_smoothing=smoothing):
        assert_right(each)


@pytest.mark.parametrize(("classes", "width"), [(3, 64), (4096, 4160), (4099, 4160)])
def test_a_gradient_with_more_columns_than_classes_is_zero_there(classes: int, width: int) -> None:
    for wanted in cross_entropy(3, classes, "bf16", label_smoothing=0.1)[1:]:
        results = (*wanted.results[:-1], TensorType("bf16", (3, width)))
        assert_right(replace(wanted, results=results))
        recipe_of, given = implementation_of(wanted), implementation_of(wanted).sample(wanted, Draws.of(0))
        padded = replace(wanted, results=results)
        made = interpret(padded, recipe_of.recipe(padded, recipe_of.candidates(padded)[0]), given)[-1]
        plain = interpret(wanted, recipe_of.recipe(wanted, recipe_of.candidates(wanted)[0]), given)[-1]
        assert torch.equal(made[:, :classes], plain) and made[:, classes:].eq(0).all()


@pytest.mark.parametrize("most", [torch.finfo(torch.bfloat16).min, 2.5e38, -1e10])
def test_logits_may_be_as_large_as_numbers_are(most: float) -> None:
    """As where all of a row is masked by the least number."""
    forward, backward, _ = cross_entropy(2, 5, "f32")
    kernel, target = implementation_of(forward), torch.tensor([0, 2])
    logits, _ = kernel.sample(forward, Draws.of(0))
    logits.fill_(min(most, 0.0))
    logits[1, 2:4] = most
    loss, level = interpret(forward, kernel.recipe(forward, kernel.candidates(forward)[0]), (logits, target))
    exact = logits.double().requires_grad_()
    wanted = functional.cross_entropy(exact, target)
    wanted.backward()
    torch.testing.assert_close(level.double(), torch.logsumexp(logits.double(), 1))
    kernel, given = implementation_of(backward), (torch.tensor(0.5), logits, target, level)
    (made,) = interpret(backward, kernel.recipe(backward, kernel.candidates(backward)[0]), given)
    assert loss.isfinite() and exact.grad is not None
    assert made.isfinite().all() and made[0, 0] < made[0, 1] and made[1, 2] < made[1, 3]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("factor", [1.0, -0.5, 1e-30])
def test_rows_of_unusual_numbers(dtype: str, factor: float) -> None:
    """Masked but for a few classes, far from zero on both sides, and with the largest after the last whole vector."""
    *_, wanted = cross_entropy(6, 8195, dtype, ignore_index=-100)
    _, logits, _ = implementation_of(wanted).sample(wanted, Draws.of(0))
    logits[0, 7:], logits[1, :8194] = -1e9, -1e9
    logits[2] += 3000.0
    logits[3] += 200.0
    logits[4] -= 3000.0
    logits[5, 8193:] = 900.0
    given = torch.tensor(factor), logits, torch.tensor([5, 8194, 8193, 8192, 0, 8194])
    kernel = implementation_of(wanted)
    _, level, made = interpret(wanted, kernel.recipe(wanted, kernel.candidates(wanted)[0]), given)
    _, exact_level, exact = kernel.reference(wanted, given)
    torch.testing.assert_close(level.double(), exact_level, rtol=2e-7, atol=1e-6)
    # As exact as a level of 3000 is in f32, and a number in bf16: each row, its target apart.
    for row, (target, own, others) in enumerate(zip(given[2].tolist(), made.double(), exact, strict=True)):
        assert abs(own[target] - others[target]) <= (3e-4 if dtype == "f32" else 4e-3) * abs(factor), row
        own[target] = others[target] = 0.0
        assert (own - others).norm() <= (3e-4 if dtype == "f32" else 6e-3) * others.norm() + 1e-37, row


# Of the last, times log₂ e, rounding takes away more than half a unit of its last place.
@pytest.mark.parametrize("peak", [2.0, 30.125, 100.3, 781.0])
def test_a_row_that_is_sure_of_its_target_has_no_loss(peak: float) -> None:
    """Not even one below 0: in many tiles, with the maximum in the first, in the last, and after whole vectors."""
    forward, *_ = cross_entropy(3, 16390, "f32", ignore_index=-100)
    kernel, target = implementation_of(forward), torch.tensor([1, 16380, 16389])
    logits, _ = kernel.sample(forward, Draws.of(0))
    logits.fill_(-200.0)
    logits[torch.arange(3), target] = peak
    for chosen in kernel.candidates(forward):
        loss, level = interpret(forward, kernel.recipe(forward, chosen), (logits, target))
        assert loss == 0.0 and level.tolist() == logits.amax(1).tolist()


def test_of_large_logits_the_difference_from_the_level_comes_first() -> None:
    _, backward, _ = cross_entropy(2, 300, "bf16", ignore_index=-100)
    kernel = implementation_of(backward)
    _, logits, *_ = kernel.sample(backward, Draws.of(0))
    logits.fill_(2.0**20)
    given = torch.tensor(1.0), logits, torch.tensor([7, -100]), torch.full((2,), 2.0**20 + 5.75)
    (made,) = interpret(backward, kernel.recipe(backward, kernel.candidates(backward)[0]), given)
    torch.testing.assert_close(made[0, 8:].double(), torch.full((292,), math.exp(-5.75)).double(), rtol=4e-3, atol=0.0)


@pytest.mark.parametrize("target", [-7, 8197, 4096 * 1000])
def test_a_target_out_of_range_has_no_place(target: int) -> None:
    """Not even beside its row."""
    _, wanted, _ = cross_entropy(3, 8197, "f32")
    kernel = implementation_of(wanted)
    dloss, logits, _, level = kernel.sample(wanted, Draws.of(0))
    given = (dloss, logits, torch.tensor([5, target, 8196]), level)
    (made,) = interpret(wanted, kernel.recipe(wanted, kernel.candidates(wanted)[0]), given)
    exact = torch.exp(logits.double() - level.double()[:, None])
    exact[0, 5] -= 1.0
    exact[2, 8196] -= 1.0
    torch.testing.assert_close(made.double(), exact * dloss.double(), rtol=1e-5, atol=1e-7)


def test_the_gradient_replaces_the_logits_only_where_each_element_has_the_place_of_its_logit() -> None:
    _, wanted, _ = cross_entropy(3, 4100, "f32")
    kernel = implementation_of(wanted)
    given, recipe = kernel.sample(wanted, Draws.of(0)), kernel.recipe(wanted, kernel.candidates(wanted)[0])
    (apart,) = interpret(wanted, recipe, given)
    (in_place,) = interpret(wanted, recipe, given, recipe.in_place)
    assert recipe.in_place == ((0, 1),) and torch.equal(in_place, apart)
    narrow = TensorType("bf16", (3, 4100), wanted.operands[1].strides)
    for result in (TensorType("f32", (3, 4100)), TensorType("bf16", (3, 4105), (8210, 1)), narrow):
        assert not kernel.recipe(replace(wanted, results=(result,)), kernel.candidates(wanted)[0]).in_place


def test_cross_entropy_of_targets_out_of_range_and_rows_that_are_not_finite() -> None:
    forward, _, both = cross_entropy(5, 40, "f32", ignore_index=-100)
    logits, target = implementation_of(forward).sample(forward, Draws.of(0))
    logits[0], logits[1, 3], logits[2, :7] = -math.inf, math.inf, -math.inf
    target[:] = torch.tensor([2, 3, 9, 40, -100])
    assert_right(forward, (logits, target))
    assert_right(both, (torch.ones([]), logits, target))


@pytest.mark.parametrize("targets", [[-100, -100, 3, -100], [-100] * 4], ids=["one", "none"])
def test_the_gradient_of_ignored_rows_is_that_of_pytorch(targets: list[int]) -> None:
    *_, wanted = cross_entropy(4, 40, "f32", ignore_index=-100)
    _, logits, _ = implementation_of(wanted).sample(wanted, Draws.of(0))
    logits[0, 3], logits[1, 5], target = math.inf, math.nan, torch.tensor(targets)
    leaf = logits.clone().requires_grad_()
    functional.cross_entropy(leaf, target, reduction="sum").backward()
    recipe_of = implementation_of(wanted)
    recipe = recipe_of.recipe(wanted, recipe_of.candidates(wanted)[0])
    *_, made = interpret(wanted, recipe, (torch.ones([]), logits, target))
    assert leaf.grad is not None and leaf.grad[:2].isnan().all()
    torch.testing.assert_close(made, leaf.grad, equal_nan=True)
    assert_right(wanted, (torch.ones([]), logits, target))


@pytest.mark.parametrize("factor", [math.inf, -math.inf, math.nan])
def test_the_gradient_by_one_that_is_not_finite_is_that_of_pytorch(factor: float) -> None:
    _, backward, both = cross_entropy(4, 40, "f32", ignore_index=-100)
    dloss, logits, target, level = implementation_of(backward).sample(backward, Draws.of(0))
    dloss, target = torch.full_like(dloss, factor), torch.tensor([3, 39, -100, 0])
    leaf = logits.clone().requires_grad_()
    functional.cross_entropy(leaf, target, reduction="sum").backward(torch.tensor(factor))
    assert leaf.grad is not None and leaf.grad[0, 3].isnan()
    for wanted, operands in ((backward, (dloss, logits, target, level)), (both, (dloss, logits, target))):
        recipe_of = implementation_of(wanted)
        recipe = recipe_of.recipe(wanted, recipe_of.candidates(wanted)[0])
        *_, made = interpret(wanted, recipe, operands)
        torch.testing.assert_close(made, leaf.grad, equal_nan=True)
        assert_right(wanted, operands)
