# pyright: reportPrivateUsage=false
"""Where the time of a step goes on a GPU: every launch of a plan timed by events, compared with what it must move and
multiply.

`python -m bench.gpu_profile FILE.dmc`, or a file of `bench.gpu_step prepare`, issues the plan's commands one by one,
each between two events, five times, and prints the kernels by what they lose to their floor: bytes at the copy rate
measured first, or floating-point operations at 989.4 TFLOP/s. Launches are issued on streams here, not as a graph, so
short ones hold some host time.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_steps import drawn_state
from bench.packed import PACKED, load_packed
from bench.record import write_record
from dmc.program import Launch, Move, Program, Space
from dmc.program.code import DeviceCode
from dmc.runtime import load
from dmc.runtime.sessions.replay import issue as replay

RESULTS = Path(__file__).parent / "results" / "gpu_profile.json"
PEAK = 989.4e12
ROUNDS, SHOWN = 5, 45


@dataclass(frozen=True)
class Row:
    """All launches of one kernel. floor_us, us: of all of them."""

    kernel: str
    implementation: str
    label: str
    launches: int
    us: float
    floor_us: float


def main() -> int:
    """Prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    step = load_packed(options.file) if options.file.suffix == PACKED else load(options.file, device="cuda")
    random = np.random.default_rng(0)
    step.load_state_dict(drawn_state(step))
    float(step.call_flat({spec.name: drawn(spec, random) for spec in step.signature.batch}))
    rate = _copy_rate()
    rows = sorted(_rows(step, rate), key=lambda row: row.floor_us - row.us)
    total, floor = sum(row.us for row in rows), sum(row.floor_us for row in rows)
    print(f"{total / 1e3:.2f} ms in launches, floor {floor / 1e3:.2f} ms at {rate / 1e12:.2f} TB/s")
    for row in rows[:SHOWN]:
        lost = row.us - row.floor_us
        each, least = row.us / row.launches, row.floor_us / row.launches
        print(
            f"{row.us:9.0f} us {row.launches:4d} x {each:8.1f} floor {least:8.1f} lost {lost:8.0f}"
            f"  {row.implementation:9} {row.kernel:34} {row.label}"
        )
    write_record(options.out, {"copy_rate": rate, "us": total, "floor_us": floor, "results": [asdict(r) for r in rows]})
    return 0


def launches_of(step: Any) -> tuple[Program, DeviceCode, Mapping[Space, int], Any]:
    """A step's program, its code, the addresses of its memory, which holds a batch once it ran, and the device."""
    return step._session._programs[0].flights[0].work.args


def drawn(spec: Any, random: np.random.Generator) -> np.ndarray:
    """Tokens, or numbers of a normal distribution."""
    if spec.dtype.startswith("i"):
        return random.integers(0, 1000, spec.shape, np.int64)
    return random.standard_normal(spec.shape, np.float32)


class _Timed:
    """Streams that issue on one stream, with an event before and after each command."""

    def __init__(self, device: Any, cuda: Any) -> None:
        self._device, self._cuda = device, cuda
        self.events: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        work = getattr(self._device, name)

        def call(lane: int, *arguments: Any) -> Any:
            return work(0, *arguments)

        return call

    def record(self, lane: int) -> None:
        """One stream needs no events."""

    def wait(self, lane: int, event: Any) -> None:
        """One stream needs no events."""

    def mark(self) -> None:
        """An event that takes the time."""
        event = self._cuda.Event()
        event.record(self._device.main)
        self.events.append(event)


def _rows(step: Any, rate: float) -> list[Row]:
    cupy: Any = importlib.import_module("cupy")

    artifact = step.snapshot()
    program, code, bases, device = launches_of(step)
    launches = [command for command in program.commands if isinstance(command, Launch)]
    best = np.full(len(launches), np.inf)
    for _ in range(ROUNDS):
        streams: Any = _Timed(device, cupy.cuda)
        for command in program.commands:
            if isinstance(command, Launch):
                streams.mark()
                replay._launch(command, code, bases, streams)
                streams.mark()
            elif isinstance(command, Move):
                target, source = (replay._address(each, bases) for each in (command.target, command.source))
                streams.copy(0, target, source, command.source.length)
        cupy.cuda.Device().synchronize()
        times = [
            cupy.cuda.get_elapsed_time(a, b) for a, b in zip(streams.events[::2], streams.events[1::2], strict=True)
        ]
        best = np.minimum(best, 1e3 * np.array(times))
    grouped: dict[str, list[int]] = defaultdict(list)
    for index, launch in enumerate(launches):
        grouped[launch.kernel].append(index)
    return [_row(artifact.job, name, launches, indices, best, rate) for name, indices in grouped.items()]


def _row(job: Any, name: str, launches: list[Launch], indices: list[int], best: np.ndarray, rate: float) -> Row:
    kernel = job.kernels[name]
    floor = 1e6 * max(kernel.traffic / rate, kernel.flops / PEAK if kernel.kind == "matmul" else 0.0)
    us = float(sum(best[index] for index in indices))
    label = launches[indices[0]].label or ""
    return Row(name, kernel.implementation, label, len(indices), us, floor * len(indices))


def _copy_rate() -> float:
    """Bytes read and written per second by a large copy on the device."""
    cupy: Any = importlib.import_module("cupy")

    source, target = cupy.zeros(1 << 29, cupy.uint8), cupy.empty(1 << 29, cupy.uint8)
    best = np.inf
    for _ in range(10):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        target[...] = source
        end.record()
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(begin, end))
    return 2 * source.nbytes / (1e-3 * best)


if __name__ == "__main__":
    sys.exit(main())
