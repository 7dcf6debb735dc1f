"""A rank that has failed ends with 1, before Python ends its threads, while one is in the device's library."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, threading, time
atexit.register(lambda: print("Python ends"))
from dmc.program import Program
from dmc.runtime.world.board import Board
from dmc.runtime.world.launch import World
from dmc.runtime.world.recorder import Recorder
from dmc.runtime.world.store import Store
from dmc.runtime.world.watch import Watch

store, recorder = Store(World(0, 1, 0, 1, "nobody"), Board()), Recorder(Program(0, {{}}, (), (), ()))
watch = Watch(store, recorder, abort=lambda: time.sleep({seconds}), timeout_s=600)
try:
    raise ValueError("no such batch")
except ValueError as error:
    {then}
print("last words")
"""


@pytest.mark.parametrize(
    ("then", "seconds", "code", "ends"),
    [
        ("watch.close(error)", 60, 1, False),
        ("watch.close(error)", 0, 0, True),
        ("watch.close()", 60, 0, True),
        ("pass", 60, 0, True),
        ("raise", 60, 1, False),
        ("raise", 0, 1, True),
    ],
)
def test_a_failed_rank_ends_before_python_does(then: str, seconds: int, code: int, ends: bool) -> None:
    """ends: whether Python does."""
    command = [sys.executable, "-c", PROGRAM.format(then=then, seconds=seconds)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert ("Python ends" in done.stdout) == ends
    assert ("last words" in done.stdout) == (then != "raise")
    assert ("ValueError: no such batch" in done.stderr) == (then == "raise")
    assert "ignored" not in done.stderr
