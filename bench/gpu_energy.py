# pyright: reportPrivateUsage=false
"""The energy of a step's kernels, by the GPU's own meter: at its power limit, a step takes its energy ÷ that limit.

`python -m bench.gpu_energy FILE.step`, a file of `bench.gpu_step prepare` with its candidates beside it, runs every
kernel alone on fresh data, again and again without a pause, in the fastest ways to compute it, and reads the meter
(NVML) as it ticks. It prints kernels by their energy in a step, in the way that is fastest under load, and their sum,
and writes `bench/results/gpu_energy.json`. Power is right within a few per cent, of normally distributed numbers. Needs
`nvidia-ml-py`.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.packed import read_packed
from bench.record import write_record
from dmc.errors import DmcError
from dmc.program import Launch
from dmc.program.tuning import CANDIDATES, Candidates, Tunable
from dmc.runtime.gpu.cuda_streams import open_device
from dmc.runtime.sessions.replay import tuner

RESULTS = Path(__file__).parent / "results" / "gpu_energy.json"
# A graph takes so many microseconds; the meter counts for so many seconds.
GRAPH_US, COUNTED_S = 10e3, 0.15
# Graphs that are queued ahead, so that the GPU never waits.
AHEAD = 4
# Ways within this factor of the fastest, and at most so many.
NEAR, MOST = 1.08, 6
SHOWN = 45


@dataclass(frozen=True)
class Way:
    """One way to compute a kernel: the time of a launch at full clocks and under load, in µs, power and energy."""

    label: str
    us: float
    loaded_us: float
    watts: float

    @property
    def millijoules(self) -> float:
        """The energy of a launch."""
        return 1e-3 * self.loaded_us * self.watts


@dataclass(frozen=True)
class Row:
    """A kernel, how often a step launches it, and its ways, that which is fastest under load first."""

    kernel: str
    launches: int
    ways: tuple[Way, ...]

    @property
    def joules(self) -> float:
        """Its energy in a step."""
        return 1e-3 * self.launches * self.ways[0].millijoules


class Meter:
    """The energy that a GPU has taken, as its driver counts it."""

    def __init__(self) -> None:
        self._nvml: Any = importlib.import_module("pynvml")
        self._nvml.nvmlInit()
        self._handle = self._nvml.nvmlDeviceGetHandleByIndex(0)

    def joules(self) -> float:
        """The count, which ticks several times in a tenth of a second."""
        return 1e-3 * self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)


def watts(joules: Callable[[], float], run: Callable[[], Any], is_done: Callable[[Any], bool]) -> float:
    """The power while `run` queues work again and again. is_done: whether what it gave is. joules: see `Meter`."""
    queued: list[Any] = []
    ticks: list[tuple[float, float]] = []
    last = joules()
    # The first tick is left out: the GPU has just begun.
    while len(ticks) < 3 or ticks[-1][0] - ticks[1][0] < COUNTED_S:
        while len(queued) < AHEAD:
            queued.append(run())
        if is_done(queued[0]):
            queued.pop(0)
        now = joules()
        if now != last:
            ticks.append((time.perf_counter(), now))
        last = now
    (begin, before), (end, after) = ticks[1], ticks[-1]
    return (after - before) / (end - begin)


def main() -> int:
    """Prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--least", type=float, default=10.0, metavar="US", help="leave out shorter kernels")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    (program,) = read_packed(options.file).job.programs
    launches = Counter(each.kernel for each in program.commands if isinstance(each, Launch))
    side = options.file.with_suffix(CANDIDATES)
    candidates = Candidates.from_bytes(side.read_bytes(), str(side))
    device, meter = open_device(), Meter()
    tunables = [tuner._with_algorithms(device, each) for each in candidates.tunables]
    code = tuner._loaded(device, tunables, candidates)
    rows: list[Row] = []
    for each in tunables:
        ways = tuple(_ways(tuner._Bench(device, code, each), each, device, meter, options.least))
        if ways:
            best = min(ways, key=lambda way: way.loaded_us)
            rows.append(Row(each.kernel, launches[each.kernel], (best, *(way for way in ways if way != best))))
    rows.sort(key=lambda row: -row.joules)
    total = sum(row.joules for row in rows)
    for row in rows[:SHOWN]:
        best, share = row.ways[0], 100 * row.joules / total
        print(
            f"{row.joules:7.3f} J {share:5.1f} % {row.launches:4d} x {best.loaded_us:8.1f} us {best.watts:5.0f} W"
            f" {best.millijoules:9.2f} mJ  {row.kernel:34} {best.label}"
        )
    print(f"{total:.2f} J")
    write_record(options.out, {"device": device.name, "joules": total, "results": [asdict(row) for row in rows]})
    return 0


def _ways(bench: Any, tunable: Tunable, device: Any, meter: Meter, least: float) -> Iterator[Way]:
    """The fastest of those that are right."""
    first = tunable.candidates[0]
    wanted = bench._results(first)
    timed: list[tuple[float, Any]] = []
    for each in tunable.candidates:
        try:
            if each is first or bench._difference(each, wanted) is None:
                timed.append((bench._microseconds(each), each))
        except DmcError:
            # The library refuses some of its own algorithms.
            continue
    timed.sort(key=lambda pair: pair[0])
    if timed[0][0] < least:
        return
    for us, each in timed[:MOST]:
        if us <= NEAR * timed[0][0]:
            count = max(8, round(GRAPH_US / us))
            graph = bench._captured(each, count)

            def run(graph: Callable[[], None] = graph) -> Any:
                graph()
                return device.record(0)

            power = watts(meter.joules, run, device.is_past)
            seconds = statistics.median(device.seconds(graph) for _ in range(3))
            yield Way(each.label, us, 1e6 * seconds / count, power)


if __name__ == "__main__":
    sys.exit(main())
