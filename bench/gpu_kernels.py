"""Every candidate of the hand-written kernels: is it right, how fast is it, and what do PyTorch and memory allow?

`python -m bench.gpu_kernels --compile DIRECTORY` compiles them for the problems of `bench.kernel_cases` on a machine
without a GPU. `python -m bench.gpu_kernels --run DIRECTORY` runs them on one with a GPU, CuPy and PyTorch: each against
its float64 reference with poisoned outputs, twice for the same bits, then timed beside PyTorch's ways to do the same,
and writes `bench/results/gpu_kernels.json`. A candidate that fails, also one that takes the device with it, is recorded
with its error and the others go on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.kernel_cases import CASES
from bench.kernel_code import compile_all
from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "gpu_kernels.json"
# The exit code of a measuring process that has lost the device, and has reported it.
_LOST = 3


def main() -> int:
    """Compiles or runs; the exit code of a run is 1 where a candidate failed or was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--compile", type=Path, metavar="DIRECTORY")
    mode.add_argument("--run", type=Path, metavar="DIRECTORY")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--workers", type=int, default=2, help="processes that compile (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=330.0, help="begin no case after (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.compile:
        compile_all(options.compile, options.cases, options.workers)
        return 0
    records = _supervise(options.run, options.cases, options.out, time.monotonic() + options.seconds)
    print(_table(records))
    return 1 if any(record.get("error") for record in records if record["way"] == "dmc") else 0


def _supervise(directory: Path, cases: list[str], out: Path, deadline: float) -> list[dict[str, Any]]:
    """Measures in a process that may crash: its current case then counts as failed, and another process continues."""
    with tempfile.TemporaryDirectory() as scratch:
        journal = Path(scratch) / "journal"
        journal.touch()
        while True:
            left = str(max(0.0, deadline - time.monotonic()))
            command = [sys.executable, "-m", "bench.kernel_worker", str(directory), str(journal), left, *cases]
            code = subprocess.run(command, check=False).returncode
            died = _note_death(journal, code)
            records = _records(journal)
            _write(out, records)
            if code != _LOST and not died:
                break
        if code:
            print(f"the measuring process failed ({code})", file=sys.stderr)
        return [record for record in records if record["state"] == "done"]


def _note_death(journal: Path, code: int) -> bool:
    """Whether the process crashed in a case, which is then recorded as failed."""
    records = _records(journal)
    if not records or records[-1]["state"] != "begun":
        return False
    failed = {**records[-1], "state": "done", "error": f"ended the process ({code})"}
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(failed) + "\n")
    return True


def _records(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]


def _write(out: Path, records: list[dict[str, Any]]) -> None:
    device = next((record for record in records if record["state"] == "device"), {})
    done = [record for record in records if record["state"] == "done"]
    results = [{key: value for key, value in record.items() if key != "state"} for record in done]
    write_record(out, {**{key: value for key, value in device.items() if key != "state"}, "results": results})


def _table(records: list[dict[str, Any]]) -> str:
    """For each case the best candidate, its lower bound and PyTorch's best, largest loss first."""
    lines: list[tuple[float, str]] = []
    for case in CASES:
        own = [record for record in records if record["case"] == case]
        good = [record for record in own if record["way"] == "dmc" and "us" in record]
        if not good:
            lines += [(0.0, f"{case:32} no candidate worked")] if own else []
            continue
        best = min(good, key=lambda record: record["us"])
        others = [f"{record['way']} {record['us']:.0f}" for record in own if record["way"] != "dmc" and "us" in record]
        lost = best["us"] - best["floor_us"]
        text = (
            f"{case:32} {best['us']:8.1f} µs  floor {best['floor_us']:7.1f}  {best['candidate']}  | {', '.join(others)}"
        )
        lines.append((-lost, text))
    failures = [
        f"{record['case']} {record['candidate']}: {record['error']}" for record in records if record.get("error")
    ]
    return "\n".join([line for _, line in sorted(lines)] + failures)


if __name__ == "__main__":
    sys.exit(main())
