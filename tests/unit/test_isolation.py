"""Code generation in bounded processes, and kernels that take it down: found alone."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from dmc import processes
from dmc.errors import CodegenError, CodegenFailure
from dmc.lowering.iree.isolation import isolate

NAMES = frozenset(f"k{i}" for i in range(20))


def _python(program: str, seconds: float = 60.0) -> processes.Ended:
    return processes.run([sys.executable, "-c", program], b"given", seconds)


def test_a_process_ends_by_itself() -> None:
    assert _python("import sys; print(sys.stdin.read(), end='')").output == b"given"
    ended = _python("import sys; print('why', file=sys.stderr); sys.exit(3)")
    assert (ended.status, ended.errors) == (3, "why\n")


def test_a_crash_is_seen() -> None:
    assert _python("import os; os.kill(os.getpid(), 11)").status == -11


def test_a_hang_ends_with_all_it_started(tmp_path: Path) -> None:
    """As long as a process that it started lives, a pipe stays open."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    alive = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    program = "import subprocess; print('begun', flush=True); subprocess.run(['sleep', '60'], stdout=open({!r}, 'w'))"
    ended = _python(program.format(str(pipe)), 2.0)
    assert (ended.status, ended.output) == (None, b"begun\n")
    assert select.select([alive], [], [], 10.0)[0]
    os.close(alive)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the time of another process")
def test_a_command_ends_although_who_waits_for_it_was_killed(tmp_path: Path) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    alive = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    busy = f"pipe = open({str(pipe)!r}, 'w')\nprint('begun', file=pipe, flush=True)\nwhile True: pass"
    program = f"import sys; from dmc import processes; processes.run([sys.executable, '-c', {busy!r}], b'', 1.5)"
    with subprocess.Popen([sys.executable, "-c", program]) as waiting:
        assert select.select([alive], [], [], 30.0)[0] and os.read(alive, 100) == b"begun\n"
        waiting.kill()
    # Readable again, with nothing to read, when the command has ended.
    assert select.select([alive], [], [], 60.0)[0] and os.read(alive, 100) == b""
    os.close(alive)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of another process")
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "memory_bytes", lambda: 64 << 20)
    ended = _python("import sys; sys.stdin.read(); bytearray(1 << 30)")
    assert ended.status == 1 and "MemoryError" in ended.errors


@pytest.mark.parametrize("how", ["refused", "crashed", "late"])
@pytest.mark.parametrize("is_named", [False, True])
def test_those_at_fault_are_found_alone(how: CodegenFailure, is_named: bool) -> None:
    bad, calls = {"k3", "k4", "k17"}, list[frozenset[str]]()

    def make(some: frozenset[str]) -> frozenset[str]:
        calls.append(some)
        if some & bad:
            raise CodegenError("target", "fails", kernels=some & bad if is_named else (), how=how)
        return some

    isolated = isolate(NAMES, make)
    assert isolated.failed.keys() == bad
    assert sorted(name for some in isolated.made for name in some) == sorted(NAMES - bad)
    waits = [some for some in calls if some & bad and len(some) > 1]
    assert len(waits) <= (1 if is_named or how == "late" else 12), "more than halves would need"
