"""Indices out of range are refused, whatever their type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc.errors import InputError
from dmc.program.signature import IndexBound, TensorSpec
from dmc.runtime.tensors.index_bounds import IndexCheck

TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "ui8": np.uint8}


@given(
    st.sampled_from(sorted(TYPES)),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=6),
    st.sampled_from([1, 100, 128, 256, 50257]),
    st.sampled_from([None, -100]),
)
def test_one_that_is_out_of_range_is_refused(name: str, numbers: list[int], size: int, ignored: int | None) -> None:
    limits = np.iinfo(TYPES[name])
    # Near the ends of the type and of the range, too.
    near = [int(limits.min), int(limits.max), size - 1, size, -1, -100]
    values = [each for each in (*numbers, *near) if limits.min <= each <= limits.max]
    inside = [each for each in values if 0 <= each < size or each == ignored]
    # All at once, and each alone: the largest decides first.
    for kept in (inside, values, *([each] for each in values)):
        array = np.array(kept, TYPES[name]).reshape(1, -1)
        bound = IndexBound("x", "an embedding", size, ignored, ((0, 1), (0, array.shape[1])))
        specs = [TensorSpec("x", name, array.shape)]
        if all(0 <= each < size or each == ignored for each in kept):
            IndexCheck(bound, specs).check([array])
            continue
        with pytest.raises(InputError, match="out of the range of an embedding"):
            IndexCheck(bound, specs).check([array])


def test_only_what_is_read_must_be_in_range() -> None:
    check = IndexCheck(IndexBound("x", "an embedding", 10, None, ((1, 3), (0, 2))), [TensorSpec("x", "i64", (4, 3))])
    array = np.zeros((4, 3), np.int64)
    array[0], array[3], array[:, 2] = 10, -1, 99
    check.check([array])
    array[2, 1] = 10
    with pytest.raises(InputError, match=r"has 10 at \[2, 1\]"):
        check.check([array])


def test_of_a_part_only_what_is_surely_read_is_checked() -> None:
    specs, part = [TensorSpec("x", "i64", (4, 3))], np.full((2, 3), 10)
    whole = IndexCheck(IndexBound("x", "an embedding", 10, None, ((0, 4), (0, 3))), specs)
    with pytest.raises(InputError, match=r"has 10 at \[0, 0\]"):
        whole.check([part])
    # Which rows of the whole these are is not known.
    IndexCheck(IndexBound("x", "an embedding", 10, None, ((1, 3), (0, 3))), specs).check([part])
