"""Graphs whose small fills and copies became kernels do the same, in the same order."""

from __future__ import annotations

import copy
import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from dmc.errors import DmcError
from dmc.runtime.gpu.captured_graph import PTX, CapturedGraph, SmallKernels
from tests.fake_graph import PLAIN, Data, GraphDriver, Kind, Memory, run

KERNEL, COPY, FILL, HOST = Kind
PINNED, DEVICE = 1, 2
SIZE = 1 << 18


class Room:
    """Memory of the device, pinned memory, and memory that the device does not reach."""

    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(bytes(range(1, 252)) * (3 * SIZE // 251 + 1))
        start = -(-ctypes.addressof(self._bytes) // 256) * 256
        self.device, self.pinned, self.pageable = start, start + SIZE, start + 2 * SIZE

    def attributes(self, address: int) -> Any:
        """What CuPy says of an address."""
        for kind, begin in ((DEVICE, self.device), (PINNED, self.pinned)):
            if begin <= address < begin + SIZE:
                return SimpleNamespace(type=kind, devicePointer=address)
        return SimpleNamespace(type=0, devicePointer=0)

    def content(self) -> bytes:
        """All of it."""
        return bytes(self._bytes)

    def reset(self, content: bytes) -> None:
        """Writes all of it."""
        self._bytes[:] = content


@pytest.fixture
def room() -> Room:
    return Room()


def fill(target: int, value: int, size: int, width: int, height: int = 1) -> Any:
    """A memset."""
    return SimpleNamespace(dst=target, pitch=512, value=value, elementSize=size, width=width, height=height)


def moved(target: int, source: int, length: int, kind: int = Memory.CU_MEMORYTYPE_UNIFIED, **changed: Any) -> Any:
    """A copy."""
    sides = {"MemoryType": kind, "Host": None, "XInBytes": 0, "Y": 0, "Z": 0}
    named = {f"{side}{name}": value for side in ("dst", "src") for name, value in sides.items()}
    named |= {"dstDevice": target, "srcDevice": source, "WidthInBytes": length, "Height": 1, "Depth": 1}
    return SimpleNamespace(**(named | changed))


def small(driver: Any, room: Room) -> SmallKernels:
    """What replaces nodes."""
    loaded: list[bytes] = []
    module = SimpleNamespace(load=loaded.append, get_function=lambda name: SimpleNamespace(ptr=name))
    runtime = SimpleNamespace(pointerGetAttributes=room.attributes)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, function=SimpleNamespace(Module=lambda: module)))
    made = SmallKernels(cupy, driver)
    assert loaded == [PTX.encode()]
    return made


def changed(driver: GraphDriver, room: Room) -> GraphDriver:
    """The graph with kernels, which does the same as before."""
    before = copy.deepcopy(driver)
    small(driver, room).replace(1)
    start = room.content()
    run(before, PTX)
    expected = room.content()
    room.reset(start)
    run(driver, PTX)
    assert room.content() == expected
    return driver


def kinds(driver: GraphDriver) -> list[Kind]:
    return [kind for kind, _ in driver.nodes.values()]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_fills_become_kernels(room: Room, size: int) -> None:
    for offset, width in itertools.product((0, size, 8), (1, 2, 3, 8, 127, 129, 1000)):
        driver = GraphDriver()
        driver.add(FILL, fill(room.device + offset, 0x89ABCDEF, size, width))
        assert kinds(changed(driver, room)) == [KERNEL]


@pytest.mark.parametrize("kind", [Memory.CU_MEMORYTYPE_UNIFIED, Memory.CU_MEMORYTYPE_DEVICE])
@pytest.mark.parametrize("is_out", [True, False])
def test_copies_to_and_from_pinned_memory_become_kernels(room: Room, kind: int, is_out: bool) -> None:
    for offset, length in itertools.product((0, 1, 2, 4, 8), (1, 2, 4, 8, 12, 1000, 4096)):
        target, source = room.pinned, room.device + offset
        driver = GraphDriver()
        driver.add(COPY, moved(target, source, length, kind) if is_out else moved(source, target, length, kind))
        assert kinds(changed(driver, room)) == [KERNEL]


def test_a_copy_that_names_host_memory_as_such_becomes_a_kernel(room: Room) -> None:
    driver = GraphDriver()
    named = {"dstMemoryType": Memory.CU_MEMORYTYPE_HOST, "dstHost": room.pinned}
    driver.add(COPY, moved(0, room.device, 4, **named))
    assert kinds(changed(driver, room)) == [KERNEL]


def test_what_is_large_or_not_understood_stays(room: Room) -> None:
    device, pinned, array = room.device, room.pinned, Memory.CU_MEMORYTYPE_ARRAY
    nodes = [
        (FILL, fill(device, 1, 4, 1 + (16 << 10))),
        (FILL, fill(device, 1, 1, 4, height=2)),
        (FILL, fill(device, 1, 8, 4)),
        (FILL, fill(device, 1, 1, 0)),
        (COPY, moved(device, pinned, 4097)),
        (COPY, moved(device, pinned, 4, Height=2)),
        (COPY, moved(device, pinned, 4, Depth=2)),
        (COPY, moved(device, pinned, 4, srcXInBytes=4)),
        (COPY, moved(device, pinned, 4, dstMemoryType=array)),
        (COPY, moved(device, device + 64, 4)),
        (COPY, moved(device, room.pageable, 4)),
        (HOST, None),
        (KERNEL, None),
    ]
    driver = GraphDriver()
    for kind, params in nodes:
        driver.add(kind, params)
    before = dict(driver.nodes)
    small(driver, room).replace(1)
    assert driver.nodes == before
    # At most so much is a kernel's.
    driver = GraphDriver()
    driver.add(FILL, fill(device, 1, 4, 16 << 10))
    assert kinds(changed(driver, room)) == [KERNEL]


def test_kernels_have_the_edges_of_what_they_replace(room: Room) -> None:
    driver, early = GraphDriver(), (1, 0, 1)
    first, beside = driver.add(KERNEL, None), driver.add(KERNEL, None)
    one = driver.add(FILL, fill(room.device, 1, 4, 1), first, beside)
    two = driver.add(FILL, fill(room.device, 2, 4, 1), one)
    out = driver.add(COPY, moved(room.pinned, room.device, 4), two, first)
    last, other = driver.add(KERNEL, None, out, two), driver.add(KERNEL, None, first)
    driver.edges[first, other] = early
    marked: Data = (0, 0, 2)
    driver.edges[two, last] = marked
    before = set(driver.edges)
    changed(driver, room)
    assert set(kinds(driver)) == {KERNEL}
    found = {node: params.func for node, (_, params) in driver.nodes.items() if params is not None}
    new = dict(zip((one, two, out), found, strict=True))
    renamed = {(new.get(a, a), new.get(b, b)) for a, b in before}
    data = {edge: each for edge, each in driver.edges.items() if each != PLAIN}
    assert set(driver.edges) == renamed
    assert data == {(first, other): early, (new[two], last): marked}


def test_a_driver_that_refuses_is_an_error(room: Room) -> None:
    for name in ("cuGraphGetNodes", "cuGraphAddKernelNode", "cuGraphAddDependencies"):
        driver = GraphDriver(fails=name)
        driver.add(FILL, fill(room.device, 1, 4, 1), driver.add(KERNEL, None))
        with pytest.raises(DmcError, match=f"cannot change a step's graph \\({name}: 700\\)"):
            small(driver, room).replace(1)


class Refused(Exception):
    """What CuPy raises."""


def test_a_graph_is_changed_before_it_is_made_ready() -> None:
    calls: list[Any] = []
    names = ("streamBeginCapture", "graphDestroy", "graphUpload", "graphLaunch", "graphExecDestroy")
    asked = {name: lambda *given, n=name: calls.append((n, *given)) for name in names}
    results = {"streamEndCapture": 5, "graphInstantiate": 6}
    asked |= {n: lambda *given, n=n, r=r: (calls.append((n, *given)), r)[1] for n, r in results.items()}
    runtime = SimpleNamespace(**asked, CUDARuntimeError=Refused)
    graph = CapturedGraph(runtime, 7, lambda: calls.append("work"), lambda graph: calls.append(("change", graph)))
    graph.launch()
    del graph
    ready = [
        ("streamEndCapture", 7),
        ("change", 5),
        ("graphInstantiate", 5),
        ("graphDestroy", 5),
        ("graphUpload", 6, 7),
    ]
    assert calls == [("streamBeginCapture", 7), "work", *ready, ("graphLaunch", 6, 7), ("graphExecDestroy", 6)]
    calls.clear()

    def fail() -> None:
        raise Refused("out of memory")

    def refuse(stream: int) -> int:
        calls.append("end")
        raise Refused("the capture is invalid")

    runtime.streamEndCapture = refuse
    with pytest.raises(Refused, match="out of memory"):
        CapturedGraph(runtime, 7, fail, lambda graph: None)
    assert calls == [("streamBeginCapture", 7), "end"]
