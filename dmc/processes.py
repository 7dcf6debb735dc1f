"""Code generators in processes of their own, whose time and memory are bounded."""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Ended:
    """What a process wrote, and how it ended: with an exit status, by a signal (negative), or, None, out of time."""

    output: bytes
    errors: str
    status: int | None


def run(command: Sequence[str], given: bytes, seconds: float) -> Ended:
    """Runs a command on an input, for at most so long."""
    process = start(command)
    if hasattr(resource, "prlimit"):
        # Where this process is killed, nobody stops the command: it ends by itself.
        most = math.ceil(seconds) * (os.cpu_count() or 1)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most))
    try:
        output, errors = process.communicate(given, timeout=seconds)
        return Ended(output, errors.decode(errors="replace"), process.returncode)
    except subprocess.TimeoutExpired as expired:
        return Ended(expired.output or b"", (expired.stderr or b"").decode(errors="replace"), None)
    finally:
        stop(process)


def start(
    command: Sequence[str], environment: dict[str, str] | None = None, errors: int | None = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """A process in a group of its own, with pipes, that may use all of the machine's memory and no more."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
    )
    if hasattr(resource, "prlimit"):
        limit = memory_bytes()
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))
    return process


def own_path() -> str:
    """The PYTHONPATH with which another process finds what this one does."""
    return os.pathsep.join(each or os.getcwd() for each in sys.path)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of `start`, and those that it started, if it still runs, and closes its pipes."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    with process:
        # Waits for it.
        return


def memory_bytes() -> int:
    """The memory of this machine, or the part of it that this process and its children may use."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    given = _CGROUP.read_text().strip() if _CGROUP.exists() else "max"
    return min(physical, int(given)) if given.isdecimal() else physical
