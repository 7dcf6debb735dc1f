"""How far the simulator is off on GPUs: predicted steps beside profiles that `dmc run --profile` wrote.

`python -m bench.gpu_prediction FILE.dmc PROFILE.json --machine MACHINE --model NAME --plan NAME` adds the comparison to
`bench/results/gpu_prediction.json`: step, lanes, and the families of kernels, in milliseconds. MACHINE is that of the
profile by default. `--calibrated` says on what the machine's figures were measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.record import write_record
from dmc.machine import machine, machine_of
from dmc.program import Job
from dmc.program.profile import Profile
from dmc.runtime.files.artifact import Artifact
from dmc.simulator import simulate
from dmc.simulator.comparison import Comparison, compare

RESULTS = Path(__file__).parent / "results" / "gpu_prediction.json"


def main() -> int:
    """Compares, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--machine")
    parser.add_argument("--model", required=True)
    parser.add_argument("--plan", default="alone")
    parser.add_argument("--calibrated", required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    profile, job = Profile.read(options.profile), Artifact.read(options.file, to_run=False).job
    chosen = machine(options.machine or machine_of(profile.device, profile.ranks))
    found = compare(simulate(job, chosen), profile)
    case = {"model": options.model, "plan": options.plan, "device": profile.device, "ranks": profile.ranks}
    case["machine"] = Path(options.machine or chosen.name).name
    result = {**case, "calibrated": options.calibrated, **_figures(found, job)}
    print(json.dumps({name: value for name, value in result.items() if name != "families"}))
    known = json.loads(options.out.read_text())["results"] if options.out.exists() else []
    kept = [each for each in known if any(each[name] != value for name, value in case.items())]
    write_record(options.out, {"results": [*kept, result]})
    return 0


def _figures(found: Comparison, job: Job) -> dict[str, Any]:
    families: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in found.commands:
        name = job.kernels[row.name].family if row.name in job.kernels else row.name
        for place, value in enumerate((row.predicted, row.measured)):
            families[name][place] += value / 1e6
    return {
        "predicted_ms": found.step.predicted / 1e6,
        "measured_ms": found.step.measured / 1e6,
        "error": found.step.error,
        "families": {name: [round(value, 4) for value in each] for name, each in sorted(families.items())},
    }


if __name__ == "__main__":
    sys.exit(main())
