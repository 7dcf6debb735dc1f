"""NVIDIA's bindings, as far as they change graphs, and a device that runs graphs: on host memory, kernels from PTX."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from graphlib import TopologicalSorter
from types import SimpleNamespace
from typing import Any

# Ports and type of an edge.
Data = tuple[int, int, int]
PLAIN: Data = (0, 0, 0)


class Kind(Enum):
    """CUgraphNodeType."""

    CU_GRAPH_NODE_TYPE_KERNEL = 0
    CU_GRAPH_NODE_TYPE_MEMCPY = 1
    CU_GRAPH_NODE_TYPE_MEMSET = 2
    CU_GRAPH_NODE_TYPE_HOST = 3


class Memory(IntEnum):
    """CUmemorytype."""

    CU_MEMORYTYPE_HOST = 1
    CU_MEMORYTYPE_DEVICE = 2
    CU_MEMORYTYPE_ARRAY = 3
    CU_MEMORYTYPE_UNIFIED = 4


@dataclass
class GraphDriver:
    """The bindings, with one graph. nodes: kind and parameters of each. edges: with the data of each.

    fails: the name of a function that does.
    """

    nodes: dict[int, tuple[Kind, Any]] = field(default_factory=dict[int, tuple[Kind, Any]])
    edges: dict[tuple[int, int], Data] = field(default_factory=dict[tuple[int, int], Data])
    fails: str = ""
    CUresult = SimpleNamespace(CUDA_SUCCESS=0)
    CUgraphNodeType = Kind
    CUmemorytype = Memory
    CUDA_KERNEL_NODE_PARAMS = SimpleNamespace

    def __getattr__(self, name: str) -> Any:
        """cuGraphGetNodes is `get_nodes`."""
        words = re.findall("[A-Z][a-z]+", name.removeprefix("cuGraph"))
        return object.__getattribute__(self, "_".join(words).lower())

    def add(self, kind: Kind, params: Any, *after: int) -> int:
        """Adds a node with plain edges from others."""
        node = len(self.nodes) + 1 + (max(self.nodes) if self.nodes else 0)
        self.nodes[node] = kind, params
        self.edges |= dict.fromkeys(((each, node) for each in after), PLAIN)
        return node

    def get_nodes(self, graph: int, count: int = 0) -> tuple[Any, ...]:
        return self._status("cuGraphGetNodes"), [*self.nodes][:count], count or len(self.nodes)

    def node_get_type(self, node: int) -> tuple[Any, ...]:
        return 0, self.nodes[node][0]

    def memset_node_get_params(self, node: int) -> tuple[Any, ...]:
        return 0, self.nodes[node][1]

    def memcpy_node_get_params(self, node: int) -> tuple[Any, ...]:
        return 0, self.nodes[node][1]

    def add_kernel_node(self, graph: int, after: None, count: int, params: Any) -> tuple[Any, ...]:
        return self._status("cuGraphAddKernelNode"), self.add(Kind.CU_GRAPH_NODE_TYPE_KERNEL, params)

    def node_get_dependencies(self, node: int, count: int = 0) -> tuple[Any, ...]:
        return self._ends([(start, data) for (start, end), data in self.edges.items() if end == node], count)

    def node_get_dependent_nodes(self, node: int, count: int = 0) -> tuple[Any, ...]:
        return self._ends([(end, data) for (start, end), data in self.edges.items() if start == node], count)

    def add_dependencies(
        self, graph: int, starts: Sequence[int], ends: Sequence[int], edges: Sequence[Data], count: int
    ) -> tuple[Any, ...]:
        assert len(starts) == len(ends) == len(edges) == count
        self.edges |= dict(zip(zip(starts, ends, strict=True), edges, strict=True))
        return (self._status("cuGraphAddDependencies"),)

    def destroy_node(self, node: int) -> tuple[Any, ...]:
        del self.nodes[node]
        self.edges = {edge: data for edge, data in self.edges.items() if node not in edge}
        return (0,)

    def memset_async(self, target: int, byte: int, count: int, stream: int) -> tuple[Any, ...]:
        """Of bytes; not into a graph."""
        ctypes.memset(target, byte, count)
        return (self._status("cuMemsetD8Async"),)

    def _status(self, name: str) -> int:
        return 700 if name == self.fails else 0

    def _ends(self, found: Sequence[tuple[int, Data]], count: int) -> tuple[Any, ...]:
        others, edges = [each for each, _ in found], [data for _, data in found]
        return 0, others[:count], edges[:count], len(found)


def run(driver: GraphDriver, ptx: str) -> None:
    """Executes the graph; kernels with parameters are those of `ptx`, whose handle is their name."""
    waits: dict[int, set[int]] = {node: set() for node in driver.nodes}
    for start, end in driver.edges:
        waits[end].add(start)
    for node in TopologicalSorter(waits).static_order():
        kind, params = driver.nodes[node]
        if kind is Kind.CU_GRAPH_NODE_TYPE_MEMSET:
            element = (params.value & (1 << 8 * params.elementSize) - 1).to_bytes(params.elementSize, "little")
            for row in range(params.height):
                ctypes.memmove(params.dst + row * params.pitch, element * params.width, params.width * len(element))
        elif kind is Kind.CU_GRAPH_NODE_TYPE_MEMCPY:
            source, target = (getattr(params, f"{s}Device") or getattr(params, f"{s}Host") for s in ("src", "dst"))
            ctypes.memmove(target + params.dstXInBytes, source + params.srcXInBytes, params.WidthInBytes)
        elif kind is Kind.CU_GRAPH_NODE_TYPE_KERNEL and params is not None:
            _launch(params, ptx)


def _launch(params: Any, ptx: str) -> None:
    found = re.search(rf"\.entry {params.func}\((.*?)\) {{(.*?)}}", ptx, re.DOTALL)
    assert found is not None, params.func
    names = re.findall(r"\.param \.(u\d+) (\w+)", found[1])
    values, types = params.kernelParams
    assert [ctypes.sizeof(each) for each in types] == [int(width[1:]) // 8 for width, _ in names]
    given = dict(zip((name for _, name in names), values, strict=True))
    lines = [line.strip() for line in found[2].replace("\n", " ").split(";") if not line.strip().startswith(".reg")]
    for block in range(params.gridDimX):
        for thread in range(params.blockDimX):
            _thread([*lines], given | {"%ctaid.x": block, "%ntid.x": params.blockDimX, "%tid.x": thread})


def _thread(lines: Sequence[str], values: dict[str, int]) -> None:
    """Executes the instructions of one thread, those of which the runtime's kernels consist."""

    def value(text: str) -> int:
        return int(text) if text.isdecimal() else values[text]

    for line in lines:
        name, _, rest = line.partition(" ")
        operands = [each.strip(" []") for each in rest.split(",")]
        bits = int(name.rpartition(".")[2][1:]) if name.rpartition(".")[2][1:].isdecimal() else 0
        match name.split(".")[0]:
            case "@%past":
                if values["%past"]:
                    return
            case "ret" | "fence" | "":
                pass
            case "mov":
                values[operands[0]] = value(operands[1])
            case "mad":
                a, b, c = map(value, operands[1:])
                values[operands[0]] = a * b + c
            case "setp" if ".ge." in name:
                values[operands[0]] = value(operands[1]) >= value(operands[2])
            case "ld" if ".param" in name:
                values[operands[0]] = values[operands[1]] & (1 << bits) - 1
            case "ld":
                assert value(operands[1]) % (bits // 8) == 0, "not aligned"
                values[operands[0]] = int.from_bytes(ctypes.string_at(value(operands[1]), bits // 8), "little")
            case "st":
                data = (value(operands[1]) & (1 << bits) - 1).to_bytes(bits // 8, "little")
                assert value(operands[0]) % (bits // 8) == 0, "not aligned"
                ctypes.memmove(value(operands[0]), data, bits // 8)
            case _:
                raise AssertionError(f"unknown instruction: {line}")
