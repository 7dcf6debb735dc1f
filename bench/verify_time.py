"""What verification adds to the time of compilation, on the models of the README, for the CPU.

`python -m bench.verify_time` compiles each model in a process of its own, as a user does by default and, where that
does not compare, once more asking for it. It writes `bench/results/verify_time.json`: seconds of the whole call and of
the comparison, which is a stage of its own.
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
    """Seconds of compiling `model`: in all, of the stage "verify", and what was noted."""
    from bench import cases
    from dmc.api import compile_artifact
    from dmc.observer import RecordingObserver

    case, observer = cases.CASES[model](), RecordingObserver()
    begin = time.perf_counter()
    compile_artifact(
        case.model,
        loss=case.loss,
        optimizer=cases.own_optimizer(),
        example=case.example(0),
        verify=WAYS[way],
        observer=observer,
    )
    total = time.perf_counter() - begin
    verify = sum(stage.seconds for stage in observer.times if stage.name == "verify")
    return {"total": total, "verify": verify, "notes": observer.notes}


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
    load = os.getloadavg()[0]
    seconds = {model: _by_way(model) for model in MODELS}
    table = Table("model", "compiled in", "the comparison alone", "made by default")
    for model, by_way in seconds.items():
        made = by_way.get("asked", by_way["default"])
        table.add_row(model, f"{made['total']:.1f} s", f"{made['verify']:.2f} s", "no" if "asked" in by_way else "yes")
    Console(width=120).print(table)
    write_record(options.out, {"seconds": seconds, "cores": os.cpu_count(), "load_before": load})


def _by_way(model: str) -> dict[str, dict[str, Any]]:
    default = _measure_fresh(model, "default")
    return {"default": default, **({"asked": _measure_fresh(model, "asked")} if default["notes"] else {})}


if __name__ == "__main__":
    main()
