"""What a GPU attains: the rates of products by type, the bandwidth of its memory, copies, and the nodes of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec.structs import replace

from dmc.calibration.fits import Line, families
from dmc.calibration.graphs import DEVICE_BYTES, PINNED_BYTES, Graphs
from dmc.dtypes import Factor
from dmc.machine import Copying, Device, Floor, Machine, Rates
from dmc.program import ALIGNMENT, Command, Kernel, Lane, Launch, Move, Operand, Range, Space
from dmc.program.code import CodeModule, DeviceCode, Dispatch, Matrix, Place, Product, Role
from dmc.program.sizes import element_bytes

COMPUTE, COMM = 0, 1
LANES = (Lane("compute", "compute"), Lane("dp", "comm", "dp"))
_HERE = "measured by dmc calibrate"
_WORKSPACE = 32 << 20
# An entry that does nothing: what a node of a graph takes by itself.
_EMPTY = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n"
_NODES = (100, 500)
# Rounds of large products that take about a second.
_LONG = 100
# Of large products, whose rate is taken as the peak; and of those of a transformer of width 1024, forward, backward to
# the input and to the weight.
_PEAKS: dict[Factor, int] = {"bf16": 8192, "f16": 8192, "f32": 4096}
_SHAPES = tuple(
    shape
    for rows, given, made in ((8192, 1024, 3072), (8192, 1024, 1024), (8192, 1024, 4096), (8192, 4096, 1024))
    for shape in ((rows, given, made), (rows, made, given), (given, rows, made))
)
_REPEATS = 6
# Bytes of a small copy.
_SMALL = 1 << 16
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
    # For the clocks that the device keeps under load.
    graphs.ns(_launches("bf16", *[_PEAKS["bf16"]] * 3), _LONG)
    rates = {dtype: _rate(graphs, dtype, size) for dtype, size in _PEAKS.items()}
    source = f"{_HERE}: products of cuBLASLt of {_PEAKS}; others: {base.device.matrix.source}"
    device = replace(device, matrix=Rates({**device.matrix.rates, **rates}, source))
    samples = [
        (_kernel("bf16", *shape), graphs.ns(_launches("bf16", *shape)) / _REPEATS) for shape in dict.fromkeys(_SHAPES)
    ]
    found = families(replace(base, device=device), samples, f"{_HERE}: products of a transformer of width 1024")
    return replace(device, families={**base.device.families, **found})


def products(count: int) -> list[Command]:
    """So many large products."""
    size = _PEAKS["bf16"]
    return (_launches("bf16", size, size, size) * (count // _REPEATS + 1))[:count]


def _rate(graphs: Graphs, dtype: Factor, size: int) -> float:
    return 2 * size**3 * _REPEATS / graphs.ns(_launches(dtype, size, size, size)) * 1e9


def _with_memory(device: Device, graphs: Graphs) -> Device:
    within = _copies(graphs, "device", "device", (_SMALL, DEVICE_BYTES // 3))
    copies = {"device>device": within}
    paths: tuple[tuple[Space, Space], ...] = (("pinned_host", "device"), ("device", "pinned_host"))
    for source, target in paths:
        copies[f"{source}>{target}"] = _copies(graphs, source, target, (_SMALL, PINNED_BYTES))
    moving = {path: Copying(each.per_second, each.start, f"{_HERE}: copies") for path, each in copies.items()}
    # Each byte is read and written.
    memory = replace(device.memories["device"], bandwidth=2 * within.per_second, source=f"{_HERE}: copies within it")
    return replace(device, memories={**device.memories, "device": memory}, copies={**device.copies, **moving})


def _copies(graphs: Graphs, source: Space, target: Space, sizes: tuple[int, int]) -> Line:
    """From a small copy and a large one, most of which no cache holds."""
    start = _RESULTS if target == "device" else 0
    moves = [Move(COMPUTE, Range(source, 0, size), Range(target, start, size)) for size in sizes]
    small, large = (graphs.ns([move] * _REPEATS) / _REPEATS for move in moves)
    rate = (sizes[1] - sizes[0]) / (large - small)
    return Line(max(0.0, small - sizes[0] / rate), rate)


def _products() -> Iterator[tuple[Factor, tuple[int, int, int]]]:
    for dtype, size in _PEAKS.items():
        yield dtype, (size, size, size)
    for shape in dict.fromkeys(_SHAPES):
        yield "bf16", shape


def _name(dtype: Factor, *shape: int) -> str:
    return "x".join([dtype, *map(str, shape)])


def _kernel(dtype: Factor, rows: int, inner: int, columns: int) -> Kernel:
    left, right, made = (Operand(dtype, each) for each in ((rows, inner), (inner, columns), (rows, columns)))
    traffic = element_bytes(dtype) * (rows * inner + inner * columns + rows * columns)
    flops = 2 * rows * inner * columns
    return Kernel("matmul", (left, right), (made,), flops, traffic, _WORKSPACE, "cublaslt", "matmul")


def _product(dtype: Factor, rows: int, inner: int, columns: int) -> Product:
    def matrix(role: Role, index: int, height: int, width: int) -> Matrix:
        return Matrix(Place(role, index, 0, element_bytes(dtype) * height * width), dtype, 1, height, width)

    left, right = matrix("read", 0, rows, inner), matrix("read", 1, inner, columns)
    return Product(left, right, matrix("write", 0, rows, columns), Place("scratch", 0, 0, _WORKSPACE))


def _launches(dtype: Factor, rows: int, inner: int, columns: int) -> list[Command]:
    """A product several times, each time on other memory, which no cache holds."""
    item = element_bytes(dtype)
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
