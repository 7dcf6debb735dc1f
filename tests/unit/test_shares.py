"""By how many bits dropout decides, and what that makes of a probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from dmc.dropout import share_of, share_of_attention
from dmc.importer.composites.dropout import keep_scale
from dmc.verification import draws, philox
from dmc.verification.draws import Draws


@given(st.floats(0.0, 1.0))
def test_a_share_states_its_probability(p: float) -> None:
    share = share_of(p)
    assert share.bits == 16
    assert abs(share.dropped - p) <= 0.5 / 2**16
    assert share.scale * (1.0 - p) == pytest.approx(1.0 if p < 1.0 else 0.0)


@given(st.floats(0.0, 1.0))
def test_attention_drops_by_few_bits_where_they_state_its_probability(p: float) -> None:
    share = share_of_attention(p)
    if share == share_of(p):
        # The nearest of 8 bits is too far, or would drop nothing, or everything.
        few = round(p * 256)
        assert abs(few / 256 - p) > 0.02 * p or few in (0, 256)
    else:
        assert share.bits == 8
        assert abs(share.dropped - p) <= 0.02 * p
        assert share.scale * (1.0 - share.dropped) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("p", "bits"), [(0.1, 8), (0.5, 8), (0.05, 8), (0.03, 16), (0.001, 16), (0.999, 16), (0.0, 16)]
)
def test_what_models_ask_for(p: float, bits: int) -> None:
    assert share_of_attention(p).bits == bits


@pytest.mark.parametrize("p", [0.1, 0.03])
@pytest.mark.parametrize(
    "attention", [functional.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention]
)
def test_eager_draws_what_attention_does(p: float, attention: Callable[..., torch.Tensor]) -> None:
    """Of equal scores and the unit matrix as values, attention gives its probabilities, and zero where it drops."""
    zeros, one = torch.zeros(1, 2, 70, 4), torch.eye(70).expand(1, 2, 70, 70)
    with Draws(5, 0):
        found = attention(zeros, zeros, one, dropout_p=p) * 70
        beside = functional.dropout(torch.ones(1, 2, 70, 70), p)
    seed = torch.tensor(5)
    expected = keep_scale([1, 2, 70, 70], seed, torch.tensor(0), share_of_attention(p))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(beside, keep_scale([1, 2, 70, 70], seed, torch.tensor(1), share_of(p)))


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_with_many_heads_draws_by_few_bits_unless_it_returns_its_weights(need_weights: bool) -> None:
    torch.manual_seed(0)
    module, x = nn.MultiheadAttention(8, 2, dropout=0.1), torch.randn(70, 1, 8)
    drawn: list[int] = []

    def uniform_bits(shape: Sequence[int], seed: int, draw: int, bits: int) -> Any:
        drawn.append(bits)
        return philox.uniform_bits(shape, seed, draw, bits)

    with mock.patch.object(draws, "uniform_bits", uniform_bits), Draws(5, 0):
        module(x, x, x, need_weights=need_weights)
    assert drawn == [16 if need_weights else 8]
