"""Starts the ranks of a test, each a process, and waits for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from dmc.runtime.world.board import serve_board
from tests.world.rank import SECRET, Task

RANK = Path(__file__).with_name("rank.py")
ROOT = Path(__file__).resolve().parents[2]
# After this, no test waits for a rank any longer.
_LIMIT_S = 60
LAUNCHERS = {
    "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"],
    "mpirun": [
        str(Path(sys.executable).with_name("mpirun")),
        "--oversubscribe",
        "--allow-run-as-root",
        "-n",
        "2",
        sys.executable,
    ],
}


@dataclass(frozen=True)
class Ended:
    """How a rank has ended. seconds: after the first one has. lines: what it printed, JSON in each."""

    code: int
    seconds: float
    lines: list[dict[str, Any]]
    errors: str

    @property
    def losses(self) -> list[float]:
        """Of the steps it has done."""
        return [line["loss"] for line in self.lines if "loss" in line]

    @property
    def state(self) -> dict[str, str]:
        """What it holds at the end."""
        return self.lines[-1]["state"]


def run_ranks(task: Task, size: int = 2, started: int | None = None) -> list[Ended]:
    """Runs the ranks of a world of `size`, or the first of them only; stopped processes are killed at the end."""
    told = msgspec.json.encode(replace(task, board=serve_board("127.0.0.1", SECRET))).decode()
    processes = [_start([sys.executable, str(RANK), told], _variables(rank, size)) for rank in range(started or size)]
    return _ended(processes)


def launched(launcher: str, task: Task) -> str:
    """What two ranks print that a launcher starts, one line after another."""
    told = [str(RANK), msgspec.json.encode(task).decode()]
    process = _start([*LAUNCHERS[launcher], *told], {})
    output, errors = process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 0, errors
    return output


def _variables(rank: int, size: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size)}


def _start(arguments: list[str], variables: dict[str, str]) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, env=environ, stdout=pipe, stderr=pipe, text=True)


def _ended(processes: list[subprocess.Popen[str]]) -> list[Ended]:
    start, ends = time.monotonic(), dict[int, float]()
    while len(ends) < len(processes) and time.monotonic() < start + _LIMIT_S:
        for rank, process in enumerate(processes):
            if rank not in ends and (process.poll() is not None or _is_stopped(process.pid)):
                ends[rank] = time.monotonic()
        time.sleep(0.01)
    found: list[Ended] = []
    for rank, process in enumerate(processes):
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        output, errors = process.communicate()
        lines = [json.loads(line) for line in output.splitlines()]
        seconds = ends.get(rank, float("inf")) - min(ends.values(), default=start)
        found.append(Ended(process.returncode, seconds, lines, errors))
    return found


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")
