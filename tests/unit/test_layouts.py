"""Layouts: where the elements of a view lie, against numpy's own strides."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.analysis.kernels.layouts import Layout


def elements(layout: Layout, memory: np.ndarray) -> np.ndarray:
    """What a layout sees in flat memory."""
    item = memory.itemsize
    return np.lib.stride_tricks.as_strided(
        memory[layout.offset :], layout.sizes, [stride * item for stride in layout.strides]
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_views_see_what_numpy_sees(random: Any) -> None:
    shape = [random.choice([1, 2, 3, 4, 6]) for _ in range(4)]
    memory = np.arange(np.prod(shape))
    layout, array = Layout.dense(shape), memory.reshape(shape)
    for _ in range(4):
        layout, array = _step(random, layout, array)
        np.testing.assert_array_equal(elements(layout, memory), array)
        assert layout.is_dense == array.flags.c_contiguous
        assert layout.span == 1 + array.max() - array.min()


def _step(random: Any, layout: Layout, array: np.ndarray) -> tuple[Layout, np.ndarray]:
    match random.choice(["permuted", "part", "reshaped"]):
        case "permuted":
            order = random.sample(range(array.ndim), array.ndim)
            return layout.permuted(order), array.transpose(order)
        case "part":
            sizes = [random.randint(1, size) for size in array.shape]
            offsets = [random.randint(0, size - own) for size, own in zip(array.shape, sizes, strict=True)]
            cut = tuple(slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))
            return layout.part(offsets, sizes), array[cut]
        case _:
            wanted = _shape(random, array.size)
            found = layout.reshaped(wanted)
            reshaped = array.reshape(wanted)
            # numpy copies where no strides say so.
            assert (found is not None) == np.shares_memory(reshaped, array)
            return (layout, array) if found is None else (found, reshaped)


def _shape(random: Any, count: int) -> list[int]:
    sizes = [count]
    for _ in range(random.randint(0, 3)):
        size = sizes.pop(random.randrange(len(sizes)))
        part = random.choice([each for each in range(1, size + 1) if size % each == 0])
        sizes += [part, size // part]
    return sizes
