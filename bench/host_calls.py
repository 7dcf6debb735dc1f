# pyright: reportPrivateUsage=false
"""The call of a compiled step on a GPU, taken apart: where its time goes on the host, and the graph that it launches.

It reaches into the runtime, whose parts it times by their names.
"""

from __future__ import annotations

import cProfile
import importlib
import io
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from ctypes import c_void_p
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from bench.cuda_driver import Driver
from bench.cuda_graphs import Graph

CALLS, BATCHES, QUEUED = 60, 4, 2
_SHOWN = 45
# What is timed, as "module:class.function" or "module:function", by what it does. Later versions may lack some.
PARTS: Mapping[str, str] = {
    "order of the arguments": "dmc.runtime.step:in_order",
    "arguments as arrays": "dmc.runtime.variant:to_array",
    "index checks": "dmc.runtime.tensors.index_bounds:IndexCheck.check",
    "rest of the checks": "dmc.runtime.variant:Variant.arrays",
    "parts of ranks": "dmc.runtime.tensors.ranks:Ranks.scatter",
    "wait for the call before the last": "dmc.runtime.sessions.replay.session:ReplaySession.wait",
    "whether that is over": "dmc.runtime.sessions.replay.session:ReplaySession._settle",
    "outputs that are kept": "dmc.runtime.sessions.replay.replayed:Flight.let_go",
    "copy of the batch": "dmc.runtime.sessions.replay.replayed:Flight.fill",
    "sending the batch": "dmc.runtime.gpu.cuda_streams:CudaStreams.send",
    "launch": "dmc.runtime.sessions.replay.replayed:Flight.launch",
    "event": "dmc.runtime.gpu.cuda_streams:CudaStreams.record",
    "readings": "dmc.runtime.sessions.replay.replayed:Flight.readings",
    "rest of the session": "dmc.runtime.sessions.replay.session:ReplaySession.issue",
    "outputs": "dmc.runtime.variant:Variant.issue",
    "result": "dmc.runtime.variant:Variant.result",
    "rest of the step": "dmc.runtime.step:Step._issue",
}


def opened(path: Path, spread: float = 0.0) -> Any:
    """A step on the GPU, from a file of `bench.packed` or `.dmc`; where IREE is not installed it is not needed.

    spread: that of the parameters of one of `bench.packed`, which are random, and always the same.
    """
    try:
        importlib.import_module("iree.runtime")
    except ImportError:
        package, runtime = ModuleType("iree"), MagicMock()
        package.runtime = runtime
        sys.modules |= {"iree": package, "iree.runtime": runtime}
    if path.suffix == ".dmc":
        return importlib.import_module("dmc.runtime").load(path, "cuda")
    packed = importlib.import_module("bench.packed")
    if not spread:
        return packed.load_packed(path)
    random = np.random.default_rng(0)
    specs = [spec for spec in packed.read_packed(path).signature.state if spec.role == "parameter"]
    numbers = {spec.name: spread * random.standard_normal(spec.shape, np.float32) for spec in specs}
    return packed.Step(packed.read_packed(path, numbers), "cuda")


def graph_of(driver: Driver, step: Any) -> Graph:
    """The graph of the training program, captured once more."""
    session = step._session
    device, flight = session._device, session._programs[0].flights[0]
    stream = c_void_p(device.main.ptr)
    # The events of a capture must outlive it.
    device._capturing = []
    driver.begin_capture(stream)
    flight.work()
    graph = Graph(driver, driver.end_capture(stream))
    device._capturing = None
    return graph


def launched_graph(driver: Driver, step: Any) -> Graph:
    """The same as it is launched: small fills and copies are kernels."""
    graph = graph_of(driver, step)
    step._session._device._small.replace(graph.handle.value)
    return graph


def entries_of(step: Any) -> set[str]:
    """The names of the step's own kernels; the others are a library's."""
    steps = (each for steps in step._artifact.code.kernels.values() for each in steps)
    return {each.entry for each in steps if hasattr(each, "entry")}


def batches_of(step: Any) -> list[dict[str, np.ndarray]]:
    """Batches at random, with indices in range."""
    ends = {bound.input: bound.size for bound in step.signature.bounds}
    random = np.random.default_rng(0)

    def drawn(spec: Any) -> np.ndarray:
        if spec.dtype.startswith("i"):
            return random.integers(0, ends.get(spec.name, 2), spec.shape).astype(spec.dtype.replace("i", "int"))
        return random.standard_normal(spec.shape, np.float32)

    return [{spec.name: drawn(spec) for spec in step.signature.batch} for _ in range(BATCHES)]


def call_parts(step: Any) -> dict[str, Any]:
    """Microseconds of a call: whole, as it is, settled and among others; and by part, each without those inside it.

    settled: with the device done before. queued: with one call in flight.
    """
    batches = batches_of(step)

    def call(index: int) -> Any:
        return step.call_flat(batches[index % BATCHES])

    for index in range(8):
        float(call(index))
    settled = _settled(call)
    queued: list[float] = []
    for index in range(CALLS // QUEUED):
        took, loss = zip(*(_timed(call, QUEUED * index + number) for number in range(QUEUED)), strict=True)
        queued += took[1:]
        float(loss[-1])
    parts: dict[str, list[float]] = {}
    with _apart(parts):
        divided = _settled(call)
    profile = cProfile.Profile()
    for index in range(CALLS):
        loss = profile.runcall(call, index)
        float(loss)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(_SHOWN)
    return {
        "settled": _round(settled),
        "queued": _round(queued),
        "settled, with the time of each part taken": _round(divided),
        "parts": {name: _round(took) for name, took in parts.items() if took},
        "times each": {name: round(len(took) / CALLS, 1) for name, took in parts.items()},
        "profile": text.getvalue().splitlines(),
    }


def _settled(call: Callable[[int], Any]) -> list[float]:
    found: list[float] = []
    for index in range(CALLS):
        took, loss = _timed(call, index)
        found.append(took)
        float(loss)
    return found


def _timed(call: Callable[[int], Any], index: int) -> tuple[float, Any]:
    begin = time.perf_counter_ns()
    loss = call(index)
    return 1e-3 * (time.perf_counter_ns() - begin), loss


def _round(times: list[float]) -> float:
    return round(statistics.median(times), 2)


@contextmanager
def _apart(parts: dict[str, list[float]]) -> Generator[None]:
    """Times what `PARTS` names, each without those inside it."""
    inside: list[float] = [0.0]
    replaced: list[tuple[Any, str, Any]] = []

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        found = parts.setdefault(name, [])

        def run(*arguments: Any, **named: Any) -> Any:
            inside.append(0.0)
            begin = time.perf_counter_ns()
            try:
                return function(*arguments, **named)
            finally:
                took = 1e-3 * (time.perf_counter_ns() - begin)
                found.append(took - inside.pop())
                inside[-1] += took

        return run

    for name, place in PARTS.items():
        module, _, path = place.partition(":")
        *owners, attribute = path.split(".")
        owner: Any = importlib.import_module(module)
        for each in owners:
            owner = getattr(owner, each)
        if hasattr(owner, attribute):
            replaced.append((owner, attribute, getattr(owner, attribute)))
            setattr(owner, attribute, timed(name, replaced[-1][2]))
    try:
        yield
    finally:
        for owner, attribute, function in replaced:
            setattr(owner, attribute, function)
