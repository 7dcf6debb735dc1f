"""A process killed while it saves, at any moment, leaves a whole file."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from dmc.runtime import Step, load
from tests import linear_step
from tests.linear_step import batch, call

KILLS = 20

# Trains and saves, forever, from where the file left off.
CHILD = """
import sys
from dmc.runtime import load
from tests.linear_step import batch, call

path = sys.argv[1]
step = load(path)
call(step, batch(0))
step.save(path)
print("saving", flush=True)
while True:
    call(step, batch(0))
    step.save(path)
"""


def test_a_whole_file_after_every_kill(tmp_path: Path) -> None:
    path = tmp_path / "step.dmc"
    # Enough bytes that a kill often comes in the middle of a write.
    artifact = dataclasses.replace(linear_step.artifact(), ir={"01-imported": linear_step.MLIR * 1500})
    step = Step(artifact)
    # Zeros are not stored, and after a step there are none.
    call(step, batch(0))
    step.save(path)
    size = path.stat().st_size
    moments = random.Random(0)
    steps_done, cut_short = 0, 0
    for _ in range(KILLS):
        _save_until_killed(path, seconds=moments.uniform(0, 0.1))
        cut_short += (path.parent / f".{path.name}.tmp").exists()
        step = load(path)
        assert path.stat().st_size == size
        assert step.steps_done > steps_done
        steps_done = step.steps_done
        step.close()
    # Else every kill came between two writes, and the test has shown nothing.
    assert cut_short >= KILLS // 5
    step = load(path)
    float(call(step, batch(0))[0])
    step.save(path)
    assert list(tmp_path.iterdir()) == [path]


def _save_until_killed(path: Path, seconds: float) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", CHILD, os.fspath(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"saving\n"
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
