"""A rank on a GPU that is killed, stopped, or raises: the others end in time and say who, in which step, where.

`python -m bench.multi_gpu_drills FILE BATCHES` trains the step of two ranks in FILE with batches as
`bench.multi_gpu_correctness` stores them, once for each fault of rank 1 in step 20, in two processes that no launcher
ends. It prints how long rank 0 went on after the fault and what it said, and writes
`bench/results/multi_gpu_drills.json`; the exit code is 1 where rank 0 was late or said nothing of rank 1.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.record import write_record

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "multi_gpu_drills.json"
FAULTS, STEP, PATIENCE_S = ("kill", "stop", "raise"), 20, 10
# A process takes a while to go, too.
SLACK_S = 5.0
AT = "fault at "


@dataclass(frozen=True)
class Ended:
    """seconds: from the fault of rank 1 until rank 0 had ended. said: by rank 0."""

    fault: str
    seconds: float
    code: int
    said: str
    is_right: bool


def main() -> int:
    """Drills; or, as one of the ranks, trains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("batches", type=Path)
    parser.add_argument("--fault", choices=FAULTS, help="what a rank is told")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.fault:
        train(options.file, options.batches, options.fault)
        return 0
    results = [drill(fault, options.file, options.batches) for fault in FAULTS]
    for result in results:
        print(json.dumps(asdict(result)), flush=True)
    write_record(options.out, {"patience_s": PATIENCE_S, "results": [asdict(each) for each in results]})
    return 0 if all(each.is_right for each in results) else 1


def train(file: Path, batches: Path, fault: str) -> None:
    """Trains until the fault, and the other rank on."""
    from dmc.runtime.step import load

    step, stored = load(file, device="cuda"), dict(np.load(batches))
    batch = {name.partition(".")[2]: array for name, array in stored.items() if name.startswith("0.")}
    for number in range(1, 100_000):
        if number == STEP and not step.is_first:
            print(f"{AT}{time.time()}", flush=True)
            _have(fault)
        float(step.call_flat(batch))


def _have(fault: str) -> None:
    if fault == "raise":
        raise ValueError("no such batch")
    os.kill(os.getpid(), signal.SIGKILL if fault == "kill" else signal.SIGSTOP)


def drill(fault: str, file: Path, batches: Path) -> Ended:
    """Starts both ranks and looks on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.multi_gpu_drills", str(file), str(batches), "--fault", fault]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "DMC_PATIENCE_S": str(PATIENCE_S)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        _, said = processes[0].communicate(timeout=90)
        ended = time.time()
    finally:
        for process in processes:
            process.kill()
    output, _ = processes[1].communicate()
    began = next(float(line.removeprefix(AT)) for line in output.splitlines() if line.startswith(AT))
    seconds, code = ended - began, processes[0].returncode
    is_right = code != 0 and seconds < PATIENCE_S + SLACK_S and "rank 1" in said
    return Ended(fault, seconds, code, said.replace(f"{ROOT}/", "")[-1500:], is_right)


if __name__ == "__main__":
    sys.exit(main())
