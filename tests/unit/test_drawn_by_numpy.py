"""The bits that verification draws by numpy are those of a compiled step, bit for bit."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dmc.importer.composites.philox import uniform_bits
from dmc.verification import philox

OF_64_BITS = st.integers(-(2**63), 2**63 - 1)


def _of_the_step(shape: list[int], seed: int, draw: int, bits: int = 16) -> list[int]:
    return uniform_bits(shape, torch.tensor(seed), torch.tensor(draw), bits).tolist()


@given(
    st.lists(st.integers(0, 70), max_size=3).filter(lambda shape: math.prod(shape) < 5000),
    OF_64_BITS,
    OF_64_BITS,
    st.sampled_from([16, 8]),
)
@example(shape=[70], seed=-1, draw=-1, bits=16)
@example(shape=[2, 3, 33], seed=5 + (7 << 32), draw=6 + (9 << 32), bits=16)
@example(shape=[2, 3, 65], seed=5 + (7 << 32), draw=6 + (9 << 32), bits=8)
def test_any_shape_seed_and_draw(shape: list[int], seed: int, draw: int, bits: int) -> None:
    assert philox.uniform_bits(shape, seed, draw, bits).tolist() == _of_the_step(shape, seed, draw, bits)


def test_across_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "BLOCKS", 8)
    assert philox.uniform_bits([101], 3, 1).tolist() == _of_the_step([101], 3, 1)
