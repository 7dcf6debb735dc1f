"""Threads for processes that share GPU memory: each is a rank, and its memory is that of the process."""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Sequence
from typing import Any

from dmc.errors import DmcError

LATE_S = 10.0
STREAM, SIDE = 7, 8


class Memory:
    """Threads for GPUs: their memory is that of the process. A stream does at once what it is asked, one beside it when
    they join."""

    def __init__(self, seed: int = 0) -> None:
        self.trouble, self.closed, self.met, self.waited, self.registered = "", 0, 0, 0, (0, 0)
        self._draw = random.Random(seed)
        self._beside: dict[int, list[tuple[int, int, int]]] = {}

    def register(self, pointer: int, length: int) -> int:
        if self.trouble == "register":
            raise DmcError("the device", "cannot reach memory")
        self.registered = pointer, length
        return pointer

    def unregister(self, pointer: int) -> None:
        assert self.registered[0] == pointer
        self.closed += 1

    def share(self, pointer: int) -> bytes:
        if self.trouble == "share":
            raise DmcError("the device", "cannot share memory")
        return str(pointer).encode()

    def open(self, handle: bytes) -> int:
        if self.trouble == "open":
            raise DmcError("the device", "cannot open memory")
        return int(handle)

    def close(self, pointer: int) -> None:
        self.closed += 1

    def copy(self, target: int, source: int, length: int, stream: Any) -> None:
        self._pause()
        if stream in self._beside:
            self._beside[stream].append((target, source, length))
        else:
            ctypes.memmove(target, source, length)

    def fork(self, stream: Any, number: int) -> Any:
        assert stream == STREAM and SIDE + number not in self._beside
        self._beside[SIDE + number] = []
        return SIDE + number

    def join(self, stream: Any, number: int) -> None:
        assert stream == STREAM
        for each in self._beside.pop(SIDE + number):
            ctypes.memmove(*each)

    def record(self, stream: Any) -> Any:
        assert stream == STREAM
        return "recorded"

    def wait(self, stream: Any, event: Any) -> None:
        assert event == "recorded"
        self.waited += 1

    def meet(self, raised: Sequence[int], awaited: Sequence[int], stream: Any) -> None:
        self._pause()
        self.met += 1
        for each in map(word, raised):
            assert each.value == 0, "a flag is raised twice"
            each.value = 1
        end = time.monotonic() + LATE_S
        for each in map(word, awaited):
            while each.value != 1:
                assert time.monotonic() < end, "a flag is never raised"
                time.sleep(0)
            each.value = 0

    def _pause(self) -> None:
        time.sleep(self._draw.choice([0, 0, 0, 1e-4, 1e-3]))


def word(address: int) -> Any:
    return ctypes.c_int32.from_address(address)
