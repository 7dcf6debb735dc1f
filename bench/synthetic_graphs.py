"""Graphs of kernels that do nothing, each apart from a line of them in one respect."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import c_int, c_void_p, memmove
from functools import partial
from typing import Any

from bench.cuda_driver import Driver, MemcpyParams, MemsetParams
from bench.cuda_graphs import Graph

NODES = 540
_SIZES = (8, 128, 1024, 4096)
_SHARED = 100 << 10
_MODULES, _ENTRIES = 27, 20
# CUlaunchAttributeID and CUfunction_attribute.
_CLUSTER, _MAX_SHARED = 4, 8
# CUmemorytype.
_HOST, _DEVICE = 1, 2
_TIMES = 60
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
# Copies four bytes a thread.
MOVE = (
    ".visible .entry move(.param .u64 to, .param .u64 from) { .reg .u64 %a<3>; .reg .u32 %v<2>;"
    "ld.param.u64 %a0, [to]; ld.param.u64 %a1, [from]; mov.u32 %v0, %tid.x; mul.wide.u32 %a2, %v0, 4;"
    "add.u64 %a0, %a0, %a2; add.u64 %a1, %a1, %a2; ld.u32 %v1, [%a1]; st.u32 [%a0], %v1; ret; }\n"
)
Add = Callable[[Graph, Sequence[int]], int]


class Synthetic:
    """What makes the graphs."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        entries = "".join(f".visible .entry p{size}(.param .align 64 .b8 p[{size}]) {{ ret; }}\n" for size in _SIZES)
        entries += "".join(f".visible .entry {name}() {{ ret; }}\n" for name in ("nothing", "shared"))
        names = ["nothing", "shared", *(f"p{size}" for size in _SIZES)]
        self._nothing, self._shared, *sized = driver.functions(HEAD + entries, names)
        self._sized = dict(zip(_SIZES, sized, strict=True))
        driver.call("cuFuncSetAttribute", self._shared, c_int(_MAX_SHARED), c_int(_SHARED))

    def line(self, count: int = NODES, *inserted: Any) -> Graph:
        """Kernels in a line. inserted: other nodes, one behind each of the first of them."""
        graph, last = Graph(self._driver), list[int]()
        for number in range(count):
            last = [graph.kernel(self._nothing, last)]
            if number < len(inserted):
                last = [graph.add(inserted[number], last)]
        return graph

    def cases(self) -> Iterator[tuple[str, Callable[[], Graph]]]:
        """Graphs by name, and what builds each."""
        fill, copy, out = self._moves()
        yield "line, a quarter of the nodes", partial(self.line, NODES // 4)
        yield "line, four times the nodes", partial(self.line, 4 * NODES)
        for size, function in self._sized.items():
            yield f"line, parameters of {size} bytes", partial(self._of, [function], size)
        yield "line, 540 functions of 27 modules", lambda: self._of(self._distinct(), 8)
        yield "line, one memset", partial(self.line, NODES, fill)
        yield "line, 20 memsets", partial(self.line, NODES, *[fill] * 20)
        yield "line, one copy in the device", partial(self.line, NODES, copy)
        yield "line, one copy to pinned memory", partial(self.line, NODES, out)
        yield "line, two of them last", lambda: self._ended(out, out)
        yield "line, one fork", partial(self._forked, 1)
        yield "line, 20 forks", partial(self._forked, 20)
        yield "line, 100 KiB of shared memory", lambda: self._sharing(1)
        yield "line, shared memory for every second", lambda: self._sharing(2)
        yield "line, one cluster", partial(self._clustered, NODES)
        yield "line, clusters", partial(self._clustered, 1)
        yield "captured line", self._captured
        yield "captured, with copies on another stream", partial(self._captured, out)

    def costs(self) -> dict[str, float]:
        """Microseconds that calls of the driver beside a launch of a graph keep the host, with the device done."""
        driver, length = self._driver, 1 << 18
        memory, pinned, source = driver.memory(length), driver.pinned(length), driver.pinned(length)
        found = {
            "a kernel": lambda: driver.queue(self._nothing),
            "256 KiB from pinned memory": lambda: driver.copy(memory, pinned, length, driver.side),
            "4 bytes to pinned memory": lambda: driver.copy(pinned, memory, 4, driver.stream),
            "an event, created, recorded, awaited": lambda: driver.follow(driver.stream, driver.side),
            "a memcpy of 256 KiB between pinned memory": lambda: memmove(pinned, source, length),
        }
        return {name: self._cost(work) for name, work in found.items()}

    def _cost(self, work: Callable[[], Any]) -> float:
        took: list[float] = []
        for _ in range(_TIMES):
            begin = time.perf_counter_ns()
            work()
            took.append(1e-3 * (time.perf_counter_ns() - begin))
            for stream in (self._driver.stream, self._driver.side):
                self._driver.synchronize(stream)
        return round(statistics.median(took), 2)

    def _moves(self) -> tuple[MemsetParams, MemcpyParams, MemcpyParams]:
        """A memset, a copy inside the device, and one to pinned memory, of a few bytes each."""
        memory, pinned = self._driver.memory(1 << 20), self._driver.pinned(1 << 12)
        copy, out = MemcpyParams(), MemcpyParams()
        for each in (copy, out):
            each.source.type, each.source.device = _DEVICE, memory
            each.target.type, each.target.device = _DEVICE, memory + (1 << 19)
            each.width, each.height, each.depth = 4, 1, 1
        out.target.type, out.target.device, out.target.host = _HOST, 0, pinned
        return MemsetParams(memory, 0, 0, 4, 64, 1), copy, out

    def _ended(self, *others: MemcpyParams) -> Graph:
        graph, last = Graph(self._driver), list[int]()
        for each in [None] * NODES + list(others):
            last = [graph.kernel(self._nothing, last) if each is None else graph.add(each, last)]
        return graph

    def _forked(self, times: int) -> Graph:
        graph, last = Graph(self._driver), list[int]()
        for number in range(NODES):
            beside = [graph.kernel(self._nothing, last)] if number < times else []
            last = [graph.kernel(self._nothing, last), *beside]
        return graph

    def _of(self, functions: Sequence[c_void_p], size: int) -> Graph:
        adds = (lambda g, last, f=functions[n % len(functions)]: g.kernel(f, last, size) for n in range(NODES))
        return self._in_a_line(adds)

    def _sharing(self, every: int) -> Graph:
        sizes = (_SHARED if number % every == 0 else 0 for number in range(NODES))
        return self._in_a_line(lambda g, last, s=each: g.kernel(self._shared, last, shared=s) for each in sizes)

    def _clustered(self, every: int) -> Graph:
        def add(graph: Graph, last: Sequence[int], number: int) -> int:
            node = graph.kernel(self._nothing, last, grid=2)
            if number % every == 0:
                value = (c_int * 16)(2, 1, 1)
                self._driver.call("cuGraphKernelNodeSetAttribute", c_void_p(node), c_int(_CLUSTER), value)
            return node

        return self._in_a_line(partial(add, number=number) for number in range(NODES))

    def _in_a_line(self, adds: Iterable[Add]) -> Graph:
        graph, last = Graph(self._driver), list[int]()
        for add in adds:
            last = [add(graph, last)]
        return graph

    def _captured(self, *copies: MemcpyParams) -> Graph:
        """Queued on a stream, with copies on another one in the middle, which nothing waits for until the end."""
        driver = self._driver
        driver.begin_capture(driver.stream)
        for number in range(NODES):
            driver.queue(self._nothing)
            if copies and number == NODES // 2:
                driver.follow(driver.side, driver.stream)
                for each in copies:
                    driver.copy(each.target.address, each.source.address, each.width, driver.side)
        if copies:
            driver.follow(driver.stream, driver.side)
        return Graph(driver, driver.end_capture(driver.stream))

    def _distinct(self) -> list[c_void_p]:
        names = [f"e{number}" for number in range(_ENTRIES)]
        entries = "".join(f".visible .entry {name}(.param .u64 p) {{ ret; }}\n" for name in names)
        return [function for _ in range(_MODULES) for function in self._driver.functions(HEAD + entries, names)]
