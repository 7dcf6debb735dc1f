"""Eager with other roundings; what the fuzzer takes for rounding, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dmc.verification.other_roundings import NARROW, OtherRoundings
from tests.fuzz.compare import is_rounding, tolerance
from tests.fuzz.train import PLAIN, Trace, by_eager, case_of

softmax_backward = torch.ops.aten._softmax_backward_data
FINDS = Path(__file__).parents[1] / "fuzz" / "finds"
TEXT = """
import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (2, 2), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        chosen = (x0 / 3).softmax(-1) @ self.p0
        return weighed(chosen), [x0.argmax(1), x0 * 2, chosen, (chosen > 0.5)]


INPUTS = (plain([1.0, 2.0, 4.0, -3.0], (2, 2), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
"""


def _eager(text: str) -> list[Trace]:
    return by_eager(case_of(text))


def _is_rounding(text: str, actual: list[Trace]) -> bool:
    return is_rounding(text, PLAIN, actual, _eager(text), tolerance(text, PLAIN))


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("name", ["loss", "p0", "output 0", "output 1", "output 2", "output 3"])
def test_a_fault_is_no_rounding(step: int, name: str) -> None:
    actual = _eager(TEXT)
    right = actual[step][name]
    actual[step][name] = right * (1 + 1e-3) if right.is_floating_point() else 1 - right.to(torch.int64)
    actual[step][name] = actual[step][name].to(right.dtype)
    assert not _is_rounding(TEXT, actual)


def test_an_infinity_is_no_rounding_where_what_is_divided_by_is_not() -> None:
    actual = _eager(TEXT)
    actual[0]["output 2"][0, 0] = torch.inf
    assert not _is_rounding(TEXT, actual)
    text = (FINDS / "a_reciprocal_of_rounding.py").read_text()
    actual = _eager(text)
    actual[0]["output 0"].fill_(torch.inf)
    assert _is_rounding(text, actual)


def test_an_infinity_is_no_rounding_where_eager_is_zero() -> None:
    # The nearest to a third: only other roundings differ from zero.
    text = TEXT.replace("x0 * 2", "x0[:, 0] / 3 - torch.tensor([0.3333333432674408, 1.3333333730697632])")
    actual = _eager(text)
    assert not actual[0]["output 1"].any()
    actual[0]["output 1"].fill_(torch.inf)
    assert not _is_rounding(text, actual)


def test_where_kernels_for_gpus_give_another_infinity_nothing_is_certain() -> None:
    text = (FINDS / "infinite_gradient_of_a_layer_norm.py").read_text()
    actual = _eager(text)
    assert actual[0]["p0"][0].isnan().all()
    actual[0]["p0"][0, 1] = torch.inf
    assert _is_rounding(text, actual)
    # The other row has nothing infinite.
    actual[0]["p0"][1, 1] *= 1.01
    assert not _is_rounding(text, actual)


def test_what_no_operation_rounds_is_certain_beside_what_is_rounded() -> None:
    actual = _eager(TEXT)
    actual[0]["output 1"] *= 1 + 4e-5
    assert not _is_rounding(TEXT, actual)


@pytest.mark.parametrize("name", ["attention_that_chooses_one", "order_of_rounded_ones"])
def test_in_chaotic_programs_rounding_is_seen(name: str) -> None:
    text = (FINDS / f"{name}.py").read_text(encoding="utf-8")
    with OtherRoundings(seed=100):
        others = _eager(text)
    assert _is_rounding(text, others)
    worst = max(others[0], key=lambda each: float((others[0][each] - _eager(text)[0][each]).abs().max()))
    others[0]["loss"] = others[0]["loss"] * 1.01
    assert not _is_rounding(text, others), worst


def test_exact_operations_are_left_alone() -> None:
    exact = [lambda x: x * 2, lambda x: x - x, lambda x: x.sum(), lambda x: x @ x, lambda x: x.t().clone()]
    values = torch.tensor([[1.0, 2.0], [3.0, -0.5]])
    with OtherRoundings(seed=0):
        assert all(torch.equal(each(values.clone()), each(values.double()).float()) for each in exact)
        assert not torch.equal(values / 3, (values.double() / 3).float())
        changed = values.clone().exp_()
    torch.testing.assert_close(changed, values.exp(), rtol=1e-6, atol=0.0)
    assert not torch.equal(changed, values.exp())


def test_an_error_may_be_on_either_side_of_the_exact_result() -> None:
    values = torch.tensor([1e8, 1.0, -1e8])
    assert (float(values.sum()), float(values.double().sum())) == (0.0, 1.0)
    found: set[float] = set()
    for seed in range(8):
        with OtherRoundings(seed):
            found.add(float(values.sum()))
    assert found == {0.0, 2.0}


def test_only_the_given_types_are_rounded_otherwise() -> None:
    values = torch.tensor([1.0, 2.0, 5.0])
    with OtherRoundings(0, NARROW):
        wide, narrow = values / 3, values.bfloat16() / 3
    assert torch.equal(wide, values / 3)
    assert not torch.equal(narrow, values.bfloat16() / 3)


def test_a_probability_stays_one() -> None:
    values = torch.full((64,), 20.0)
    for seed in range(4):
        with OtherRoundings(seed):
            found = values.sigmoid()
        assert (found < 1.0).any() and (found <= 1.0).all()
    assert (values.sigmoid() == 1.0).all()


def test_all_of_a_difference_of_what_was_rounded_may_vanish() -> None:
    values = torch.rand(32, generator=torch.Generator().manual_seed(0))
    near = values.nextafter(torch.ones(()))
    exact = torch.tensor([1.0, 2.0])
    sums = set()
    for seed in range(8):
        with OtherRoundings(seed):
            sums.add(float((near - values).abs().sum()) == 0.0)
            assert torch.equal(exact - exact / 4, exact * 0.75)
    assert sums == {True, False}


def test_a_mask_stays_infinite() -> None:
    scores = torch.rand(8, 8, generator=torch.Generator().manual_seed(0))
    for seed in range(8):
        with OtherRoundings(seed):
            assert (scores + torch.full((8, 8), -torch.inf)).isinf().all()


def test_a_nan_has_either_sign() -> None:
    with OtherRoundings(0):
        signs = (torch.zeros(64) / 0.0).signbit()
    assert signs.any() and not signs.all()


def test_the_two_parts_of_a_softmaxs_gradient_need_not_cancel() -> None:
    y, dy = torch.tensor([1.0, 0.0]), torch.tensor([0.1, 0.3])
    assert torch.equal(softmax_backward(dy, y, -1, torch.float32), torch.zeros(2))
    with OtherRoundings(0):
        rounded, exact = (softmax_backward(each, y, -1, torch.float32) for each in (dy, dy.half().float()))
    assert rounded.abs().tolist() == pytest.approx([0.3 * torch.finfo(torch.float32).eps, 0.0])
    assert torch.equal(exact, torch.zeros(2))
