"""Large arrays are copied in pieces, whatever their layout."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import pytest

from dmc.dtypes import dtype_of
from dmc.runtime.tensors import large_copies
from dmc.runtime.tensors.large_copies import copy_into


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


def test_a_process_that_is_forked_copies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_copies, "_LARGE", 1)
    copy_into(np.zeros(8), np.ones(8))
    child = os.fork()
    if not child:
        signal.alarm(20)
        copy_into(target := np.zeros(8), np.ones(8))
        os._exit(0 if target.all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_when_python_starts_no_threads_one_copies_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_copies, "_LARGE", 1)
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    monkeypatch.setattr(large_copies, "_threads", lambda: ended)
    copy_into(target := np.zeros((8, 2)), np.ones((8, 2)))
    assert target.all()


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_copies, "_LARGE", 1)
    with pytest.raises(ValueError, match="could not broadcast"):
        copy_into(np.zeros((8, 2)), np.zeros((8, 3)))
