"""What verification adds to the time of compilation, on the models of the README, for the CPU.

`python -m bench.verify_time` compiles each model in a process of its own, as a user does by default and, where that
does not compare, once more asking for it. It writes `bench/results/verify_time.json`: seconds of the whole call and of
the comparison, which is a stage of its own, by the clock and of all cores together. Where others use the machine, too,
the latter tell more; how many wait for its cores is in the record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "verify_time.json"
MODELS = ("demo_gpt", "bert_small", "lstm")
WAYS: dict[str, bool | None] = {"default": None, "asked": True}


def measure(model: str, way: str) -> dict[str, Any]:
    """Seconds of compiling `model`, of the clock and of the processor: in all and of the comparison; what was noted."""
    from bench import cases
    from dmc.api import compile_artifact
    from dmc.observer import RecordingObserver

    class Clocks(RecordingObserver):
        """Notes the time of the processor at both ends of each stage."""

        def __init__(self) -> None:
            super().__init__()
            self.ends: dict[str, list[float]] = {}

        def started(self, name: str) -> None:
            self.ends[name] = [_processor()]

        def finished(self, name: str, seconds: float, failed: bool) -> None:
            super().finished(name, seconds, failed)
            self.ends[name].append(_processor())

    case, observer = cases.CASES[model](), Clocks()
    begin, cpu = time.perf_counter(), _processor()
    compile_artifact(
        case.model,
        loss=case.loss,
        optimizer=cases.own_optimizer(),
        example=case.example(0),
        verify=WAYS[way],
        observer=observer,
    )
    total, total_cpu = time.perf_counter() - begin, _processor() - cpu
    verify = sum(stage.seconds for stage in observer.times if stage.name == "verify")
    first, last = observer.ends["verify"]
    return {
        "total": total,
        "verify": verify,
        "total_cpu": total_cpu,
        "verify_cpu": last - first,
        "notes": observer.notes,
    }


def _processor() -> float:
    """Seconds that the cores have worked for this process and those that it has started."""
    return sum(os.times()[:4])


def _measure_fresh(model: str, way: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.verify_time", "--one", model, way]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main() -> None:
    """Measures each model in each way and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WAY"), help="measure once, in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    before = os.getloadavg()[0]
    seconds = {model: _by_way(model) for model in MODELS}
    table = Table("model", "compiled in", "the comparison alone", "of the cores", "made by default")
    for model, by_way in seconds.items():
        made = by_way.get("asked", by_way["default"])
        by_clock = [f"{made[each]:.1f} s" for each in ("total", "verify")]
        cores = f"{made['verify_cpu']:.1f} of {made['total_cpu']:.1f} s"
        table.add_row(model, *by_clock, cores, "no" if "asked" in by_way else "yes")
    Console(width=120).print(table)
    write_record(options.out, {"seconds": seconds, "cores": os.cpu_count(), "load": [before, os.getloadavg()[0]]})


def _by_way(model: str) -> dict[str, dict[str, Any]]:
    default = _measure_fresh(model, "default")
    return {"default": default, **({"asked": _measure_fresh(model, "asked")} if default["notes"] else {})}


if __name__ == "__main__":
    main()
