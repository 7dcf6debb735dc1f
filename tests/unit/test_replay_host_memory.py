"""State that waits in host memory, on a GPU that only says what is asked of it."""

from __future__ import annotations

import numpy as np
import pytest

from dmc.errors import DmcError
from dmc.program import Move, Range
from dmc.program.signature import TensorSpec
from dmc.runtime.tensors.arrays import zeros
from tests.fake_gpu import Device, Failure, Others, session_on, take_step


def test_state_in_host_memory_is_there_once_for_all_calls() -> None:
    device, state, there = Device(), Range("host", 0, 16), Range("device", 64, 16)
    turned = Range("device", 64, 8), Range("device", 72, 8), Range("device", 80, 8)
    swap = (Move(0, turned[0], turned[2]), Move(0, turned[1], turned[0]), Move(0, turned[2], turned[1]))
    session = session_on(device, None, False, Move(0, state, there), *swap, Move(0, there, state), space="host")
    device.calls.clear()
    session.write_state([np.array([1, 2, 3, 4], np.float32)])
    # The device copies nothing: what is in host memory is the host's.
    assert {*device.calls} == {"synchronize"}
    held = session.read_state(0)
    for expected in ([3, 4, 1, 2], [1, 2, 3, 4], [3, 4, 1, 2]):
        take_step(session)
        device.calls.clear()
        np.testing.assert_array_equal(session.read_state(0), expected)
        assert {*device.calls} == {"synchronize"}
    np.testing.assert_array_equal(held, [1, 2, 3, 4])
    session.close()


def test_zeros_in_host_memory() -> None:
    session = session_on(Device(), space="host")
    session.write_state([zeros((4,), np.dtype(np.float32))])
    np.testing.assert_array_equal(session.read_state(0), np.zeros(4, np.float32))


def test_state_in_host_memory_is_gathered_from_the_device() -> None:
    others = Others(device := Device())
    session = session_on(device, others, space="host")
    device.calls.clear()
    part = TensorSpec("weight", "f32", (4,))
    np.testing.assert_array_equal(session.gathered(0, part, (0, 1)), [[0.0] * 4, [1.0] * 4])
    assert others.apart == 0
    moved = ["memcpyAsync", "synchronize", *((f"broadcast of {rank}", 16, "i8", 7) for rank in (0, 1))]
    assert device.calls == ["record", "waits", *moved, "record", "waits", "memcpy"]
    # Of what another rank gives, this rank sends nothing.
    device.calls.clear()
    np.testing.assert_array_equal(session.gathered(0, part, (0,)), [[0.0] * 4])
    assert device.calls == ["record", "waits", ("broadcast of 0", 16, "i8", 7), "record", "waits", "memcpy"]


def test_host_memory_that_cannot_be_pinned_is_an_error() -> None:
    device = Device()

    def fails(length: int) -> None:
        raise Failure("out of memory")

    device.cuda.alloc_pinned_memory = fails
    with pytest.raises(DmcError, match=r"cannot pin 256 bytes of host memory \(out of memory\)"):
        session_on(device, space="host")
