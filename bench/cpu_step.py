"""The time of a training step on two CPU cores: dmc compared with PyTorch eager and torch.compile.

`python -m bench.cpu_step` runs every system in its own process, lets them step in turn so that all see the same machine
load, and reports the median time of a step, the growth of resident memory while training, and the time until the first
step is done (tracing, compiling, and the first step itself). Results go to `bench/results/cpu_step.json`,
with `--vectors avx2` to `cpu_step_avx2.json`: then neither dmc nor PyTorch's libraries use AVX-512.

    python -m bench.cpu_step --pack DIR --processor sapphirerapids    # where the compiler is
    python -m bench.cpu_step --packed DIR                             # on that processor, with dmc.runtime and PyTorch
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.cases import CASES
from bench.packed import PACKED
from bench.record import write_record
from bench.worker import CORES

SYSTEMS = ("eager", "compile", "dmc")
RESULTS = Path(__file__).parent / "results"
BUSY = 0.5  # Load average; PyTorch's threads wait for each other actively, so one busy neighbour multiplies its times.
SETTLE_S = 0.3  # Threads of the process that has just stepped may still spin for a moment.


@dataclass(frozen=True)
class Vectors:
    """What all systems may use of the processor. target: dmc's; environment: that of PyTorch, oneDNN and MKL."""

    target: str
    environment: Mapping[str, str]
    record: str


AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
VECTORS = {
    "all": Vectors("cpu", {}, "cpu_step.json"),
    "avx2": Vectors("cpu:x86-64-v3", AVX2, "cpu_step_avx2.json"),
}


@dataclass(frozen=True)
class Result:
    """One system on one model. step_ms: median, fastest and slowest of `steps` steps. Memory in MB (10⁶ bytes)."""

    model: str
    system: str
    step_ms: float
    fastest_ms: float
    slowest_ms: float
    steps: int
    ready_s: float
    training_mb: float
    compiler_mb: float | None
    loss: float


class Worker:
    """A worker process and the communication with it."""

    def __init__(self, model: str, system: str, directory: Path, vectors: Vectors) -> None:
        command = [sys.executable, "-m", "bench.worker", model, system, str(directory), vectors.target]
        # A fresh cache: torch.compile would otherwise only look up what an earlier run compiled.
        environment = {**os.environ, **vectors.environment, "TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.ready_s: float = self._answer()["ready_s"]
        self.seconds: list[float] = []

    def run(self, steps: int) -> None:
        """Runs that many steps and records their times."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        self.seconds += self._answer()

    def finish(self) -> dict[str, float]:
        """Ends the process; returns its memory and its last loss."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        last = self._answer()
        self._process.wait()
        return last

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with exit code {self._process.wait()}: its own output says why")
        return json.loads(line)


def pack(models: Sequence[str], directory: Path, vectors: Vectors) -> None:
    """Compiles every model into a small file."""
    directory.mkdir(parents=True, exist_ok=True)
    for model in models:
        Worker(model, "dmc-packer", directory, vectors).finish()


def measure(
    model: str, systems: Sequence[str], rounds: int, steps: int, directory: Path, vectors: Vectors, packed: Path | None
) -> list[Result]:
    """Every system on one model: `rounds` turns of `steps` steps each, after one turn to warm up. What is packed was
    compiled elsewhere: compiling has no time and no memory then.
    """
    if packed:
        file = replace(vectors, target=str((packed / model).with_suffix(PACKED)))
        Worker(model, "dmc-unpacker", directory, file).finish()
        compile_s, compiler_mb = 0.0, None
    else:
        compiler = Worker(model, "dmc-compiler", directory, vectors)
        compile_s, compiler_mb = compiler.ready_s, compiler.finish()["training_mb"]
    workers = {system: Worker(model, system, directory, vectors) for system in systems}
    for turn in range(rounds + 1):
        for worker in workers.values():
            time.sleep(SETTLE_S)
            worker.run(steps if turn else 1)
    results: list[Result] = []
    for system, worker in workers.items():
        last = worker.finish()
        times = [1e3 * seconds for seconds in worker.seconds[1:]]
        own = system == "dmc"
        results.append(
            Result(
                model=model,
                system=system,
                step_ms=statistics.median(times),
                fastest_ms=min(times),
                slowest_ms=max(times),
                steps=len(times),
                ready_s=worker.ready_s + (compile_s if own else 0.0),
                training_mb=last["training_mb"],
                compiler_mb=compiler_mb if own else None,
                loss=last["loss"],
            )
        )
    return results


def main() -> None:
    """Measures, prints a table, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4, help="steps in each turn")
    parser.add_argument("--vectors", choices=tuple(VECTORS), default="all", help="avx2: as if there were no AVX-512")
    parser.add_argument("--pack", type=Path, metavar="DIR", help="compile into small files only")
    parser.add_argument("--processor", help="compile for it, by LLVM's name")
    parser.add_argument("--packed", type=Path, metavar="DIR", help="measure what was compiled into it")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    vectors = VECTORS[options.vectors]
    if options.processor:
        if options.packed or options.vectors != "all":
            parser.error("--processor is for compiling, without --packed and --vectors")
        vectors = replace(vectors, target=f"cpu:{options.processor}")
    if options.packed and options.out is None:
        parser.error("--packed needs --out: its times are without compilation")
    if options.pack:
        pack(options.models, options.pack, vectors)
        return
    load = os.getloadavg()[0]
    if load > BUSY:
        Console(stderr=True).print(f"other programs are running (load {load:.1f}): the times will say little")
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as directory:
        for model in options.models:
            results += measure(
                model, options.systems, options.rounds, options.steps, Path(directory), vectors, options.packed
            )
    Console(width=120).print(_table(results))
    record = {
        "machine": _machine(),
        "vectors": options.vectors,
        "load_before": load,
        "results": [asdict(result) for result in results],
    }
    write_record(options.out or RESULTS / vectors.record, record)


def _table(results: list[Result]) -> Table:
    columns = ("model", "system", "step, ms", "range", "× eager", "ready, s", "training, MB", "compiler, MB", "loss")
    table = Table(*columns)
    eager = {result.model: result.step_ms for result in results if result.system == "eager"}
    for result in results:
        table.add_row(
            result.model,
            result.system,
            f"{result.step_ms:.1f}",
            f"{result.fastest_ms:.1f}–{result.slowest_ms:.1f}",
            f"{result.step_ms / eager[result.model]:.2f}" if eager else "",
            f"{result.ready_s:.1f}",
            f"{result.training_mb:.0f}",
            "" if result.compiler_mb is None else f"{result.compiler_mb:.0f}",
            f"{result.loss:.4f}",
        )
    return table


def _machine() -> dict[str, str | int]:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": min(CORES, len(os.sched_getaffinity(0))),
    }


if __name__ == "__main__":
    main()
