"""However a program ends, it ends without a crash and without a word from IREE."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dmc.runtime import Step
from tests import linear_step

ISSUE = "losses = [call(step, batch(i)) for i in range(5)]"
CYCLE = "box = [step, call(step, batch(0))]; box.append(box); del step, box"
MODULE = "import types; m = types.ModuleType('m'); m.s = step; sys.modules['m'] = m; del step"
THREAD = "import threading; threading.Thread(target=lambda: [call(step, batch(i)) for i in range(50)]).start()"

ENDINGS = {
    "nothing run": "",
    "unread losses": ISSUE,
    "read losses": "losses = [float(call(step, batch(i))[0]) for i in range(5)]",
    "step gone before its losses": f"{ISSUE}; del step; float(losses[2][0])",
    "two steps": "other = load(path); l = call(other, batch(0)); del step",
    "collected in a cycle": f"{CYCLE}; import gc; gc.collect()",
    "left in a cycle": f"import gc; gc.disable(); {CYCLE}",
    "held by another module": MODULE,
    "held to the very end": "sys.kept = [step, call(step, batch(0))]",
    "never let go": "import ctypes; l = call(step, batch(0)); ctypes.pythonapi.Py_IncRef(ctypes.py_object(step))",
    "closed": "loss, _ = call(step, batch(0)); step.close()",
    "running in a thread": THREAD,
    "sys.exit": "call(step, batch(0)); sys.exit(0)",
}

FAILURES = {
    "an exception": ("call(step, batch(0)); raise KeyError('mine')", "KeyError: 'mine'"),
    "a refused batch": ("call(step, batch(0)); step(1)", "InputError: call: expected 2 positional inputs, got 1"),
    "a refused loss": (
        "b = batch(0); b['x'][:] = float('nan'); call(step, b, check_finite=True)",
        "NonFiniteLossError: step 1: the loss is nan",
    ),
    "a failed device": (
        "s = step._session._steps; s.advance(); loss, _ = call(step, batch(0)); s.fail('gone'); float(loss)",
        "DmcError: step: call 2 failed on device 'local-task'",
    ),
}

PRELUDE = """
import sys
from dmc.runtime import load
from tests.linear_step import batch, call
path = sys.argv[1]
step = load(path)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exit") / "step.dmc"
    Step(linear_step.artifact()).save(path)
    return path


def _run(body: str, path: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-X", "faulthandler", "-c", PRELUDE + body, os.fspath(path)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_clean_end(ending: str, path: Path) -> None:
    done = _run(ENDINGS[ending], path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("failure", FAILURES)
def test_an_end_by_an_error(failure: str, path: Path) -> None:
    body, message = FAILURES[failure]
    done = _run(body, path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "nanobind" not in done.stderr and "Fatal" not in done.stderr
