"""Launches compiled candidates on a GPU through CuPy, on PyTorch's memory and streams; times work in CUDA graphs."""

from __future__ import annotations

import functools
import importlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.kernel_code import Compiled, Launch
from dmc.kernels.problem import Problem
from dmc.kernels.recipe import Buffer, Recipe
from dmc.kernels.references.draws import empty
from dmc.program.code import TensorMap
from dmc.runtime.gpu.tensor_maps import TensorMaps

# Without stubs, and not installed where this is checked.
cupy: Any = importlib.import_module("cupy")
_FREE_SHARED = 48 * 1024
_LAUNCHES = 10
_REPEATS = 7
_ENTRIES: dict[str, Any] = {}


def entry_of(directory: Path, launch: Launch) -> Any:
    """The function of a cubin, loaded once."""
    if launch.file not in _ENTRIES:
        function = cupy.RawModule(path=str(directory / launch.file)).get_function(launch.entry)
        if launch.shared > _FREE_SHARED:
            function.max_dynamic_shared_size_bytes = launch.shared
        _ENTRIES[launch.file] = function
    return _ENTRIES[launch.file]


@dataclass(frozen=True)
class Instance:
    """A candidate with memory of its own for all that it reads and writes."""

    compiled: Compiled
    directory: Path
    memory: Mapping[Buffer, Tensor]
    results: tuple[Tensor, ...]

    @staticmethod
    def of(
        compiled: Compiled, directory: Path, problem: Problem, recipe: Recipe, operands: Sequence[Tensor]
    ) -> Instance:
        results = tuple(empty(type, "cuda") for type in problem.results)
        memory = {Buffer("operand", index): tensor for index, tensor in enumerate(operands)}
        memory |= {Buffer("result", index): tensor for index, tensor in enumerate(results)}
        memory |= {Buffer("scratch", index): empty(type, "cuda") for index, type in enumerate(recipe.scratch)}
        return Instance(compiled, directory, memory, results)

    def poison(self) -> None:
        """Makes everything that will be written NaN, or 85."""
        for buffer, tensor in self.memory.items():
            if buffer.role in ("result", "scratch"):
                tensor.fill_(float("nan") if tensor.is_floating_point() else 85)

    def launch(self, numbers: slice = slice(None)) -> None:
        """Issues the candidate's launches, or some of them, on PyTorch's current stream."""
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            for launch in self.compiled.launches[numbers]:
                pointers = [self.memory[buffer].data_ptr() for buffer in launch.buffers]
                shown = zip(pointers, launch.maps, strict=True)
                arguments = [each for pointer, map_ in shown for each in _arguments(pointer, map_)]
                arguments += [np.uint64(0)] * launch.nulls
                entry = entry_of(self.directory, launch)
                entry((launch.programs,), (launch.threads,), tuple(arguments), shared_mem=launch.shared)


@functools.cache
def _tensor_maps() -> TensorMaps:
    return TensorMaps(importlib.import_module("cuda.bindings.driver"))


def _arguments(pointer: int, map_: TensorMap | None) -> tuple[Any, ...]:
    """What an entry takes for a buffer."""
    if map_ is None:
        return (np.uint64(pointer),)
    map_array, *others = _tensor_maps().arguments(map_, pointer)
    return (map_array[0], *others)


def microseconds(works: Sequence[Callable[[], Any]]) -> float:
    """The time of one of `works`, which do the same on different memory: the median of graphs of ten launches."""
    stream = torch.cuda.current_stream()
    works[0]()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for index in range(_LAUNCHES):
            works[index % len(works)]()
    graph.replay()
    times: list[float] = []
    for _ in range(_REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(stream)
        graph.replay()
        end.record(stream)
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / _LAUNCHES)
    graph.reset()
    return statistics.median(times)


def copy_rate() -> float:
    """Bytes per second, read plus written, of a copy of one GiB."""
    source = torch.empty(1 << 30, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return 2e6 * source.nbytes / microseconds([lambda: target.copy_(source)])


def product_rate() -> float:
    """Floating-point operations per second of a large product in bf16."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2e6 * 8192**3 / microseconds([lambda: a @ b])
