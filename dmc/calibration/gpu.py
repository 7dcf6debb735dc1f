"""What a GPU attains: the rates of products by type, the bandwidth of its memory, copies, and the nodes of a graph."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

from msgspec.structs import replace

from dmc.calibration.fits import Line, families, line
from dmc.calibration.graphs import DEVICE_BYTES, PINNED_BYTES, Graphs
from dmc.machine import Copying, Device, Floor, Machine, Rates
from dmc.program import ALIGNMENT, Command, Kernel, Lane, Launch, Move, Operand, Range, Space
from dmc.program.code import ITEM_BYTES, CodeModule, DeviceCode, Dispatch, Matrix, Place, Product, Role

Type: TypeAlias = Literal["f32", "bf16", "f16"]
COMPUTE, COMM = 0, 1
LANES = (Lane("compute", "compute"), Lane("dp", "comm", "dp"))
_HERE = "measured by dmc calibrate"
_WORKSPACE = 32 << 20
# An entry that does nothing: what a node of a graph takes by itself.
_EMPTY = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n"
_NODES = (100, 500)
# Seconds in which a device cools down; and rounds of large products in which it warms up, which take about a second.
_PAUSE_S, _LONG = 1.0, 100
# Of large products, whose rate is taken as the peak; and of those of a transformer of width 1024, forward, backward to
# the input and to the weight.
_PEAKS: dict[Type, int] = {"bf16": 8192, "f16": 8192, "f32": 4096}
_SHAPES = tuple(
    shape
    for rows, given, made in ((8192, 1024, 3072), (8192, 1024, 1024), (8192, 1024, 4096), (8192, 4096, 1024))
    for shape in ((rows, given, made), (rows, made, given), (given, rows, made))
)
_REPEATS = 6
# Operands lie below, and stay as they are; results from here on.
_RESULTS = DEVICE_BYTES // 3 * 2


def code() -> DeviceCode:
    """All that is launched."""
    empty = Dispatch("empty", (1, 1, 1), (32, 1, 1), 0, (), module="empty")
    products = {_name(dtype, *shape): (_product(dtype, *shape),) for dtype, shape in _products()}
    return DeviceCode({"empty": CodeModule(_EMPTY)}, {"empty": (empty,), **products})


def measured(base: Machine, graphs: Graphs, product: str) -> Device:
    """The device of `base` with what was measured. product: its name, as its driver reports it."""
    device = replace(base.device, product=product, kernels={}, families={})
    few, many = (graphs.ns([Launch(COMPUTE, "empty", (), ())] * count) for count in _NODES)
    device = replace(device, launch=Floor((many - few) / (_NODES[1] - _NODES[0]), f"{_HERE}: an empty node of a graph"))
    device = _with_memory(device, graphs)
    device = replace(device, sustained=_sustained(graphs))
    rates = {dtype: _rate(graphs, dtype, size) for dtype, size in _PEAKS.items()}
    source = f"{_HERE}: products of cuBLASLt of {_PEAKS}; others: {base.device.matrix.source}"
    device = replace(device, matrix=Rates({**device.matrix.rates, **rates}, source))
    samples = [
        (_kernel("bf16", *shape), graphs.ns(_launches("bf16", *shape)) / _REPEATS) for shape in dict.fromkeys(_SHAPES)
    ]
    found = families(replace(base, device=device), samples, f"{_HERE}: products of a transformer of width 1024")
    return replace(device, families={**base.device.families, **found})


def _sustained(graphs: Graphs) -> float:
    """How much longer products take when the device has computed for a second, than after a pause."""
    large = _launches("bf16", *[_PEAKS["bf16"]] * 3)
    time.sleep(_PAUSE_S)
    burst = graphs.ns(large[:1], 1)
    return round(max(1.0, graphs.ns(large, _LONG) / len(large) / burst), 4)


def products(count: int) -> list[Command]:
    """So many large products."""
    size = _PEAKS["bf16"]
    return (_launches("bf16", size, size, size) * (count // _REPEATS + 1))[:count]


def _rate(graphs: Graphs, dtype: Type, size: int) -> float:
    return 2 * size**3 * _REPEATS / graphs.ns(_launches(dtype, size, size, size)) * 1e9


def _with_memory(device: Device, graphs: Graphs) -> Device:
    largest = DEVICE_BYTES // 3
    within = _copies(graphs, "device", "device", (1 << 20, 16 << 20, 256 << 20, largest))
    copies = {"device>device": within}
    paths: tuple[tuple[Space, Space], ...] = (("pinned_host", "device"), ("device", "pinned_host"))
    for source, target in paths:
        copies[f"{source}>{target}"] = _copies(graphs, source, target, (1 << 16, 1 << 20, 16 << 20, PINNED_BYTES))
    moving = {path: Copying(each.per_second, each.start, f"{_HERE}: copies") for path, each in copies.items()}
    # Each byte is read and written.
    memory = replace(device.memories["device"], bandwidth=2 * within.per_second, source=f"{_HERE}: copies within it")
    return replace(device, memories={**device.memories, "device": memory}, copies={**device.copies, **moving})


def _copies(graphs: Graphs, source: Space, target: Space, sizes: Sequence[int]) -> Line:
    times: list[float] = []
    for size in sizes:
        start = _RESULTS if target == "device" else 0
        move = Move(COMPUTE, Range(source, 0, size), Range(target, start, size))
        times.append(graphs.ns([move] * _REPEATS) / _REPEATS)
    return line(sizes, times)


def _products() -> Iterator[tuple[Type, tuple[int, int, int]]]:
    for dtype, size in _PEAKS.items():
        yield dtype, (size, size, size)
    for shape in dict.fromkeys(_SHAPES):
        yield "bf16", shape


def _name(dtype: Type, *shape: int) -> str:
    return "x".join([dtype, *map(str, shape)])


def _kernel(dtype: Type, rows: int, inner: int, columns: int) -> Kernel:
    left, right, made = (Operand(dtype, each) for each in ((rows, inner), (inner, columns), (rows, columns)))
    traffic = ITEM_BYTES[dtype] * (rows * inner + inner * columns + rows * columns)
    flops = 2 * rows * inner * columns
    return Kernel("matmul", (left, right), (made,), flops, traffic, _WORKSPACE, "cublaslt", "matmul")


def _product(dtype: Type, rows: int, inner: int, columns: int) -> Product:
    def matrix(role: Role, index: int, height: int, width: int) -> Matrix:
        return Matrix(Place(role, index, 0, ITEM_BYTES[dtype] * height * width), dtype, 1, height, width)

    left, right = matrix("read", 0, rows, inner), matrix("read", 1, inner, columns)
    return Product(left, right, matrix("write", 0, rows, columns), Place("scratch", 0, 0, _WORKSPACE))


def _launches(dtype: Type, rows: int, inner: int, columns: int) -> list[Command]:
    """A product several times, each time on other memory, which no cache holds."""
    item = ITEM_BYTES[dtype]
    given, made = (item * rows * inner, item * inner * columns), (item * rows * columns, _WORKSPACE)
    launches: list[Command] = []
    for index in range(_REPEATS):
        reads = _ranges(given, index * sum(given) % (_RESULTS - sum(given)))
        result, scratch = _ranges(made, _RESULTS + index * sum(made) % (DEVICE_BYTES - _RESULTS - sum(made)))
        launches.append(Launch(COMPUTE, _name(dtype, rows, inner, columns), reads, (result,), scratch))
    return launches


def _ranges(sizes: Sequence[int], start: int) -> tuple[Range, ...]:
    """Ranges of device memory behind each other."""
    ends = list(accumulate(sizes, initial=start // ALIGNMENT * ALIGNMENT))
    return tuple(Range("device", begin, size) for begin, size in zip(ends, sizes, strict=False))
