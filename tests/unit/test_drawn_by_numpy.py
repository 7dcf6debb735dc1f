"""The bits that verification draws by numpy are those of a compiled step, bit for bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dmc.importer.composites.philox import uniform_bits
from dmc.verification import philox

OF_64_BITS = st.integers(-(2**63), 2**63 - 1)


def _of_the_step(count: int, seed: int, draw: int) -> list[int]:
    return uniform_bits([count], torch.tensor(seed), torch.tensor(draw)).tolist()


@given(st.integers(0, 70), OF_64_BITS, OF_64_BITS)
@example(count=70, seed=-1, draw=-1)
@example(count=70, seed=5 + (7 << 32), draw=6 + (9 << 32))
def test_any_seed_and_draw(count: int, seed: int, draw: int) -> None:
    assert philox.uniform_bits(count, seed, draw).tolist() == _of_the_step(count, seed, draw)


def test_across_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "BLOCKS", 8)
    assert philox.uniform_bits(101, 3, 1).tolist() == _of_the_step(101, 3, 1)
