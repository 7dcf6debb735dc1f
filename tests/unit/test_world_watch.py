"""A process whose rank has failed ends with 1, whatever its threads do and its main thread has made of the error."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import threading, time
from dmc.program import Program
from dmc.runtime.world.board import Board
from dmc.runtime.world.launch import World
from dmc.runtime.world.recorder import Recorder
from dmc.runtime.world.store import Store
from dmc.runtime.world.watch import Watch

store, recorder = Store(World(0, 1, 0, 1, "nobody"), Board()), Recorder(Program(0, {{}}, (), (), ()))
watch = Watch(store, recorder, abort=lambda: time.sleep(60), timeout_s=600)
try:
    raise ValueError("no such batch")
except ValueError as error:
    {then}
print("last words")
"""


@pytest.mark.parametrize(
    ("then", "code", "said"),
    [("watch.close(error)", 1, ""), ("watch.close()", 0, ""), ("raise", 1, "ValueError: no such batch")],
)
def test_a_rank_that_fails_ends_with_1(then: str, code: int, said: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(then=then)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert ("last words" in done.stdout) == (then != "raise")
