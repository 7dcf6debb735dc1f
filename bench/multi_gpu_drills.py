"""A rank on a GPU that is killed, stopped, raises, fails to start, or to write: the others end in time and say why.

`python -m bench.multi_gpu_drills FILE BATCHES OTHER` trains the step of two ranks in FILE with batches as
`bench.multi_gpu_correctness` stores them, once for each fault of rank 1, in two processes that no launcher ends:

* kill, stop, raise: in step 20
* disk, part: full, or killed, while it writes its part of the checkpoint of step 20; the job then resumes
* file, missing: it starts with the step in OTHER, or not at all

It prints how long rank 0 went on after the fault and what it said, and writes `bench/results/multi_gpu_drills.json`.
The exit code is 1 where rank 0 was late or did not say what is expected, or a resumed job does not have the losses of
one that was never stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.record import write_record

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "multi_gpu_drills.json"
STEPS, STEP, SAVED, PATIENCE_S = 30, 20, 10, 10
# A process takes a while to go, and longer to come.
SLACK_S, STARTING_S = 5.0, 45.0
# What ranks wait for each other at the start.
MEETING_S = 60
LONGEST_S = 120.0
AT, LOSS = "fault at ", "loss "
SAID = {
    "kill": "rank 1 has sent no heartbeat",
    "stop": "rank 1 has sent no heartbeat",
    "raise": "rank 1 raised ValueError: no such batch",
    "disk": "the checkpoint of step 20: rank 1 could not write it: .*File too large",
    "part": "rank 1 has sent no heartbeat",
    "file": "the plan of rank 1 differs from that of rank 0",
    "missing": "rank 1 did not reach",
}


@dataclass(frozen=True)
class Ended:
    """seconds: from the fault of rank 1 until rank 0 had ended. said: by rank 0.

    resumed: whether the job went on, from the checkpoint before, with the losses of one that was never stopped.
    """

    fault: str
    seconds: float
    code: int
    said: str
    resumed: bool | None
    is_right: bool


@dataclass(frozen=True)
class Job:
    """What ranks train. second: the file of rank 1; None: it does not start."""

    file: Path
    batches: Path
    second: Path | None

    def run(self, fault: str = "", checkpoints: str = "") -> list[subprocess.CompletedProcess[str]]:
        """Trains on two GPUs until the first rank has ended."""
        port = _free_port()
        files = [self.file, *([self.second] if self.second else [])]
        processes = [self._start(rank, file, port, fault, checkpoints) for rank, file in enumerate(files)]
        # What is late is killed, and so has another exit code than 1.
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes[0].wait(LONGEST_S)
            if not fault:
                processes[1].wait(LONGEST_S)
        for process in processes:
            process.kill()
        return [subprocess.CompletedProcess(each.args, each.wait(), *each.communicate()) for each in processes]

    def _start(self, rank: int, file: Path, port: int, fault: str, checkpoints: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "bench.multi_gpu_drills", str(file), str(self.batches), "--train"]
        shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "DMC_PATIENCE_S": str(PATIENCE_S)}
        return subprocess.Popen(
            [*command, "--fault", fault, "--checkpoints", checkpoints],
            env={**os.environ, **shared, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def main() -> int:
    """Drills; or, as one of the ranks, trains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("batches", type=Path)
    parser.add_argument("other", type=Path, nargs="?", help="another step of two ranks")
    parser.add_argument("--faults", nargs="+", choices=SAID, default=list(SAID))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--train", action="store_true", help="as one of the ranks")
    parser.add_argument("--fault", default="")
    parser.add_argument("--checkpoints", default="")
    options = parser.parse_args()
    if options.train:
        train(options.file, options.batches, options.fault, options.checkpoints)
        return 0
    if options.other is None and "file" in options.faults:
        parser.error("OTHER is needed for the fault 'file'")
    results = list[Ended]()
    for fault in options.faults:
        results.append(drill(fault, options.file, options.batches, options.other))
        print(json.dumps(asdict(results[-1])), flush=True)
    write_record(options.out, {"patience_s": PATIENCE_S, "results": [asdict(each) for each in results]})
    return 0 if all(each.is_right for each in results) else 1


def train(file: Path, batches: Path, fault: str, checkpoints: str) -> None:
    """Trains until the fault, and the other rank on."""
    from dmc.runtime import Checkpoints, load

    step, stored = load(file, device="cuda"), dict(np.load(batches))
    batch = {name.partition(".")[2]: array for name, array in stored.items() if name.startswith("0.")}
    keeper = Checkpoints(step, checkpoints) if checkpoints else None
    for number in range(keeper.resume() if keeper else 0, STEPS):
        if number + 1 == STEP and fault and not step.is_first:
            print(f"{AT}{time.time()}", flush=True)
            _have(fault)
        print(f"{LOSS}{float(step.call_flat(batch))!r}", flush=True)
        if keeper and (number + 1) % SAVED == 0:
            keeper.save()
    if keeper:
        keeper.wait()


def _have(fault: str) -> None:
    from dmc.runtime.world.checkpoint import writer

    match fault:
        case "raise":
            raise ValueError("no such batch")
        case "disk":
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        case "part":
            writer.write_shard = lambda path, tensors: str(os.kill(os.getpid(), signal.SIGKILL))
        case _:
            os.kill(os.getpid(), signal.SIGKILL if fault == "kill" else signal.SIGSTOP)


def drill(fault: str, file: Path, batches: Path, other: Path | None) -> Ended:
    """Starts both ranks and looks on."""
    second = {"file": other, "missing": None}.get(fault, file)
    has_checkpoints, is_start = fault in ("disk", "part"), fault in ("file", "missing")
    with tempfile.TemporaryDirectory() as folder:
        began, checkpoints = time.time(), folder if has_checkpoints else ""
        first, *others = Job(file, batches, second).run(fault, checkpoints)
        ended = time.time()
        resumed = _resumes(Job(file, batches, file), checkpoints) if has_checkpoints else None
    # A fault that has not come is seen by what rank 0 says.
    told = [line.removeprefix(AT) for each in others for line in each.stdout.splitlines() if line.startswith(AT)]
    began = float(told[0]) if told else began
    seconds, limit = ended - began, STARTING_S + MEETING_S if is_start else PATIENCE_S + SLACK_S
    said = _essence(first.stderr)
    is_in_time = first.returncode == 1 and seconds < limit
    is_right = is_in_time and bool(re.search(SAID[fault], said)) and not _fatal(said) and resumed is not False
    return Ended(fault, seconds, first.returncode, said, resumed, is_right)


def _essence(said: str) -> str:
    """The error without the way to it, and whatever else ended the process."""
    lines = said.replace(f"{ROOT}/", "").splitlines()
    begins = [place for place, line in enumerate(lines) if "dmc: error" in line or "dmc.errors" in line]
    return "\n".join([*_fatal(said), *lines[begins[0] if begins else 0 :]])[:1500]


def _fatal(said: str) -> list[str]:
    return [line for line in said.splitlines() if "terminate called" in line or "Fatal" in line]


def _free_port() -> int:
    """A port that no connection is given by chance before it is listened on: Linux takes those from 32768 on."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def _resumes(job: Job, checkpoints: str) -> bool:
    never_stopped, resumed = (_losses(job.run(checkpoints=folder)[0].stdout) for folder in ("", checkpoints))
    return len(never_stopped) == STEPS and resumed == never_stopped[SAVED:]


def _losses(output: str) -> Sequence[str]:
    return [line.removeprefix(LOSS) for line in output.splitlines() if line.startswith(LOSS)]


if __name__ == "__main__":
    sys.exit(main())
