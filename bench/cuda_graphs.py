"""CUDA graphs, built node by node or taken apart, and what their launches cost the host."""

from __future__ import annotations

import contextlib
import ctypes
import statistics
import time
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from graphlib import TopologicalSorter

from bench.cuda_driver import Driver, DriverError, KernelParams, MemcpyParams, MemsetParams

KINDS = {0: "kernel", 1: "memcpy", 2: "memset", 3: "host", 4: "graph", 5: "empty", 6: "wait_event", 7: "record_event"}
# Those of a kernel's node, by CUlaunchAttributeID.
ATTRIBUTES = {
    1: "access_policy_window",
    2: "cooperative",
    4: "cluster_dimension",
    5: "cluster_scheduling",
    8: "priority",
    9: "memory_domain_map",
    10: "memory_domain",
    11: "preferred_cluster",
    13: "device_updatable",
    14: "carveout",
}
# Launches that are queued without waiting: fewer than the driver holds up a launch for.
QUEUED = 3


class Graph:
    """A graph. Handles of nodes are those of the driver."""

    def __init__(self, driver: Driver, handle: c_void_p | None = None) -> None:
        self.driver, self.handle = driver, handle or c_void_p()
        if handle is None:
            driver.call("cuGraphCreate", byref(self.handle), c_uint(0))

    def kernel(
        self, function: c_void_p, after: Sequence[int] = (), size: int = 0, shared: int = 0, grid: int = 1
    ) -> int:
        """Adds a kernel of one warp a block whose only parameter has `size` bytes."""
        room = (c_ubyte * max(size, 1))()
        pointers = (c_void_p * 1)(ctypes.addressof(room))
        given = KernelParams(function, (grid, 1, 1), (32, 1, 1), shared)
        given.params = ctypes.cast(pointers, POINTER(c_void_p)) if size else None
        return self.add(given, after)

    def move(self, function: c_void_p, copied: MemcpyParams, after: Sequence[int]) -> int:
        """Adds a kernel of two addresses, with a thread for every four bytes, in the place of a copy."""
        addresses = (c_ulonglong * 2)(copied.target.address, copied.source.address)
        pointers = (c_void_p * 2)(ctypes.addressof(addresses), ctypes.addressof(addresses) + 8)
        given = KernelParams(function, (1, 1, 1), (copied.width // 4, 1, 1), 0)
        given.params = ctypes.cast(pointers, POINTER(c_void_p))
        return self.add(given, after)

    def add(self, given: KernelParams | MemsetParams | MemcpyParams, after: Sequence[int]) -> int:
        """Adds a node after others."""
        node, before = c_void_p(), (c_void_p * max(len(after), 1))(*after)
        place = (byref(node), self.handle, before, c_size_t(len(after)), byref(given))
        if isinstance(given, KernelParams):
            self.driver.call("cuGraphAddKernelNode_v2", *place)
        else:
            kind = "Memset" if isinstance(given, MemsetParams) else "Memcpy"
            self.driver.call(f"cuGraphAdd{kind}Node", *place, self.driver.context)
        return node.value or 0

    def edges(self) -> list[tuple[int, int, tuple[int, int, int]]]:
        """From where to where, with the ports and the type of each."""
        count = c_size_t()
        self.driver.call("cuGraphGetEdges_v2", self.handle, None, None, None, byref(count))
        start, end = (c_void_p * count.value)(), (c_void_p * count.value)()
        data = (c_ubyte * (8 * count.value))()
        self.driver.call("cuGraphGetEdges_v2", self.handle, start, end, data, byref(count))
        places = range(count.value)
        return [(start[i] or 0, end[i] or 0, (data[8 * i], data[8 * i + 1], data[8 * i + 2])) for i in places]

    def nodes(self) -> list[int]:
        """All nodes, each after those that it waits for, otherwise as the driver lists them."""
        count = c_size_t()
        self.driver.call("cuGraphGetNodes", self.handle, None, byref(count))
        listed = (c_void_p * count.value)()
        self.driver.call("cuGraphGetNodes", self.handle, listed, byref(count))
        waits: dict[int, set[int]] = {each or 0: set() for each in listed}
        for start, end, _ in self.edges():
            waits[end].add(start)
        return list(TopologicalSorter(waits).static_order())

    def given(self, node: int) -> KernelParams | MemsetParams | MemcpyParams | None:
        """The parameters of a node; None of another kind."""
        kind = self.kind(node)
        if kind not in ("kernel", "memset", "memcpy"):
            return None
        found = {"kernel": KernelParams, "memset": MemsetParams, "memcpy": MemcpyParams}[kind]()
        suffix = "_v2" if kind == "kernel" else ""
        self.driver.call(f"cuGraph{kind.title()}NodeGetParams{suffix}", c_void_p(node), byref(found))
        return found

    def kind(self, node: int) -> str:
        """What a node is."""
        kind = c_int()
        self.driver.call("cuGraphNodeGetType", c_void_p(node), byref(kind))
        return KINDS.get(kind.value, str(kind.value))

    def attributes(self, node: int) -> dict[str, str]:
        """The attributes of a kernel's node that are not zero."""
        values = {name: self.attribute(node, number) for number, name in ATTRIBUTES.items()}
        return {name: bytes(value).rstrip(b"\0").hex() for name, value in values.items() if any(value)}

    def attribute(self, node: int, number: int) -> ctypes.Array[c_ulonglong]:
        """An attribute of a kernel's node; zeros where it has none."""
        value = (c_ulonglong * 8)()
        # This driver may not know it, or not for nodes.
        with contextlib.suppress(DriverError):
            self.driver.call("cuGraphKernelNodeGetAttribute", c_void_p(node), c_int(number), byref(value))
        return value

    def instantiated(self, flags: int = 0, uploads: bool = True) -> Executable:
        """Ready to be launched."""
        begin, handle = time.perf_counter(), c_void_p()
        self.driver.call("cuGraphInstantiateWithFlags", byref(handle), self.handle, c_ulonglong(flags))
        if uploads:
            self.driver.call("cuGraphUpload", handle, self.driver.stream)
        self.driver.synchronize()
        return Executable(self.driver, handle, 1e3 * (time.perf_counter() - begin))


@dataclass(frozen=True)
class Executable:
    """A graph that can be launched. ready_ms: how long it took to become that."""

    driver: Driver
    handle: c_void_p
    ready_ms: float

    def launch_us(self) -> float:
        """What a launch costs the host."""
        begin = time.perf_counter_ns()
        status = self.driver.launch(self.handle, self.driver.stream)
        took = time.perf_counter_ns() - begin
        if status:
            raise DriverError(f"cuGraphLaunch: {status}")
        return 1e-3 * took

    def release(self) -> None:
        """Frees it."""
        self.driver.call("cuGraphExecDestroy", self.handle)


def measured(graph: Graph, count: int, flags: int = 0, uploads: bool = True) -> dict[str, float]:
    """Microseconds for which launches keep the host, by how they follow one another.

    first: of all. alone: each after the one before is done. worst: of these, the ninth of ten. waiting: the same, with
    the stream told to wait for another one before. queued: while those before run. in_turn: two graphs, each when the
    other is done. step_ms: of queued ones, each.
    """
    driver, runs = graph.driver, [graph.instantiated(flags, uploads) for _ in range(2)]
    first = runs[0].launch_us()
    driver.synchronize()

    def settled(numbers: Iterator[int], waits: bool = False) -> list[float]:
        found: list[float] = []
        for number in numbers:
            if waits:
                driver.follow(driver.stream, driver.side)
            found.append(runs[number].launch_us())
            driver.synchronize()
        return sorted(found)

    alone, waiting = settled(iter([0] * count)), settled(iter([0] * count), waits=True)
    in_turn = settled(iter([0, 1] * (count // 2)))
    queued: list[float] = []
    begin = time.perf_counter()
    for _ in range(rounds := max(count // QUEUED, 1)):
        queued += [runs[0].launch_us() for _ in range(QUEUED)][1:]
        driver.synchronize()
    took = time.perf_counter() - begin
    for each in runs:
        each.release()
    return {
        "ready_ms": round(runs[0].ready_ms, 2),
        "first": round(first, 2),
        "alone": round(statistics.median(alone), 2),
        "worst": round(alone[9 * len(alone) // 10], 2),
        "waiting": round(statistics.median(waiting), 2),
        "queued": round(statistics.median(queued), 2),
        "in_turn": round(statistics.median(in_turn), 2),
        "step_ms": round(1e3 * took / rounds / QUEUED, 3),
    }
