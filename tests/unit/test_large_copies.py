"""Large arrays are copied in pieces, whatever their layout."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from dmc.runtime import large_copies
from dmc.runtime.dtypes import dtype_of
from dmc.runtime.large_copies import copy_into


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 7), (3, 5), (4, 2), (5,), (9, 2, 3)])
@pytest.mark.parametrize("name", ["f32", "bf16", "i64", "i1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_copies(shape: tuple[int, ...], name: str, order: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_copies, "_LARGE", 1)
    dtype = dtype_of(name).numpy
    source = np.array(np.random.default_rng(0).integers(0, 2, shape).astype(dtype), order=order)
    source.flags.writeable = False
    target = np.full((*shape, 2), 1, np.int8).astype(dtype)
    copy_into(target[..., 1], source)
    np.testing.assert_array_equal(target[..., 1], source)
    assert (target[..., 0] == np.ones((), dtype)).all(), "what lies between is unchanged"


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_copies, "_LARGE", 1)
    with pytest.raises(ValueError, match="could not broadcast"):
        copy_into(np.zeros((8, 2)), np.zeros((8, 3)))
