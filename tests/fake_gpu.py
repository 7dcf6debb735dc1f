"""A GPU that only says what is asked of it, and the other ranks of a job: for tests of what replays a plan."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.program import Command, Job, Lane, Program, Range, Slot, Space
from dmc.program.code import DeviceCode
from dmc.program.signature import Signature, StateSpec, TensorSpec
from dmc.runtime.gpu.cuda_streams import CudaStreams
from dmc.runtime.sessions.replay.session import ReplaySession
from dmc.runtime.world.launch import World
from tests.fake_graph import GraphDriver


class Failure(Exception):
    """What CuPy raises."""


class Device:
    """CuPy, as far as a session needs it. calls: what was asked, by name. fails: whether waiting does.

    driver: NVIDIA's bindings, for which graphs are empty.
    """

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fails = False
        self.driver = GraphDriver()
        asked = {"memcpyHostToDevice": 1, "memcpyDeviceToHost": 2, "CUDARuntimeError": Failure}
        asked |= {name: self._copies(name) for name in ("memcpy", "memcpyAsync")} | {"memcpyDefault": 4}
        stream = SimpleNamespace(ptr=7, synchronize=self._synchronize, wait_event=self._asked("wait_event"))
        asked |= {f"graph{name}": self._asked(name.lower()) for name in ("Upload", "Launch", "Destroy", "ExecDestroy")}
        asked |= {"streamBeginCapture": self._asked("begin_capture"), "streamEndCapture": lambda stream: 8}
        asked |= {"graphInstantiate": lambda graph: 9}
        module = SimpleNamespace(load=self._asked("load"))
        event = SimpleNamespace(record=self._asked("record"), synchronize=self._synchronize, done=True)
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(**asked),
            Stream=lambda non_blocking: stream,
            Event=lambda disable_timing=False: event,
            get_elapsed_time=lambda begin, end: 2.0,
            function=SimpleNamespace(Module=lambda: module),
            Memory=Memory,
            Device=lambda: SimpleNamespace(use=lambda: None, id=0),
            alloc_pinned_memory=Memory,
        )

    def _asked(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)

    def _copies(self, name: str) -> Any:
        def copy(target: int, source: int, length: int, *_: int) -> None:
            self.calls.append(name)
            ctypes.memmove(target, source, length)

        return copy

    def _synchronize(self) -> None:
        self.calls.append("synchronize")
        if self.fails:
            raise Failure("illegal address")


class Memory(bytearray):
    """Memory of the device, or pinned."""

    @property
    def ptr(self) -> int:
        return np.frombuffer(self, np.uint8).ctypes.data


class Others:
    """The other ranks of a rank 1. failure: of one of them. All they hold is zeros. apart: how far behind the target of
    the last broadcast from here its source was."""

    def __init__(self, device: Device) -> None:
        self.world, self._device = World(1, 2, 1, 2, "torchrun"), device
        self.failure: DmcError | None = None
        # The places of commands before which a device asked what to wait for.
        self.asked: list[int] = []
        self.everyone = SimpleNamespace(broadcast=self._broadcast, group=nullcontext)

    def _broadcast(self, source: int, target: int, length: int, dtype: str, root: int, stream: int) -> None:
        self._device.calls.append((f"broadcast of {root}", length, dtype, stream))
        if root == self.world.rank:
            self.apart = source - target
            ctypes.memmove(target, source, length)

    def open(self, job: Job) -> Any:
        self._device.calls.append("open channels")
        return SimpleNamespace(
            move=lambda *_: self._device.calls.append("move"), before=lambda place, _: self.asked.append(place)
        )

    def share(self, memory: Any, arena: int) -> None:
        self._device.calls.append("share")

    def leave(self) -> None:
        self._device.calls.append("leave")

    def follow(self, unfinished: Any) -> None:
        self.unfinished = unfinished

    def begin(self, step: int) -> None:
        self._device.calls.append(f"begin {step}")

    @contextmanager
    def waiting(self) -> Generator[None]:
        self._device.calls.append("waits")
        yield

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure


def session_on(
    device: Device,
    peers: Any = None,
    is_captured: bool = True,
    *commands: Command,
    space: Space = "device",
    inputs: Space = "pinned_host",
) -> ReplaySession:
    """A session of one tensor of state, in a memory space, whose program has these commands.

    inputs: the memory space of these.
    """
    slots = (
        Slot("w", "parameter", "f32", (4,), Range(space, 0, 16)),
        Slot("x", "batch", "f32", (2,), Range(inputs, 0, 8)),
        Slot("loss", "output", "f32", (), Range("pinned_host", 256, 4)),
    )
    arenas: dict[Space, int] = {"device": 256, "pinned_host": 512}
    for each in (space, inputs):
        arenas.setdefault(each, 256)
    program = Program(0, arenas, (Lane("compute", "compute"),), slots, commands)
    signature = Signature(
        state=(StateSpec("w@0", "f32", (4,)),),
        controls=(),
        batch=(TensorSpec("x@0", "f32", (2,)), TensorSpec("none@0", "f32", (0, 3))),
        outputs=(TensorSpec("loss@0", "f32", ()),),
        args={"tuple": []},
        kwargs={"dict": {}},
        aux=None,
        learning_rates=(),
    )
    rank = 0 if peers is None else 1
    programs = (program, replace(program, rank=1)) if rank else (program,)
    job, code = Job.of({"rank": len(programs)}, (), {}, programs), DeviceCode({}, {})
    kinds = ("state", "batch", "outputs")
    specs = {kind: tuple(_of_rank(spec, rank) for spec in getattr(signature, kind)) for kind in kinds}
    own = dataclasses.replace(signature, **specs)
    return ReplaySession(
        CudaStreams(device, device.driver), own, job, code, [np.ones(4, np.float32)], peers, is_captured
    )


def _of_rank(spec: Any, rank: int) -> Any:
    return dataclasses.replace(spec, name=spec.name.replace("@0", f"@{rank}"))


def take_step(session: ReplaySession) -> int:
    """Issues a step."""
    return session.issue([], [np.ones(2, np.float32), np.ones((0, 3), np.float32)])[0]
