"""Runs torch-mlir's passes in a process of its own, which serves all compilations of this one.

On some operations torch-mlir crashes, or finds no end. That must not take the user's process down: such an operation is
named, with a file that reproduces it (`culprit`).
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from dmc._mlir import ir
from dmc.importer.linalg.torch_passes import Refusal, Request, bytecode, receive, send
from dmc.processes import own_path, start, stop

# Imported, not run as a program: what is pickled there has the module's name.
_SERVE = "from dmc.importer.linalg.torch_passes import serve_standard_streams as serve; serve()"
COMMAND: Sequence[str] = (sys.executable, "-c", _SERVE)
# The passes may take so long: a hundred times what they take on large steps, on one idle core.
PATIENCE_S = 300


class Died(Exception):
    """The process that ran the passes came to an end."""

    def __init__(self, status: int, seconds: int) -> None:
        late = status == -signal.SIGALRM
        super().__init__(f"finds no end (in {seconds} s)" if late else f"crashes ({_ending(status)})")


def passed(module: ir.Module, pipeline: str, seconds: int) -> ir.Module | Refusal:
    """`module` after the passes, in its context; `module` itself is unchanged. Raises Died, also after so long."""
    answer = _answer(Request(pipeline, bytecode(module), seconds))
    return answer if isinstance(answer, Refusal) else ir.Module.parse(answer, module.context)


_LOCK = threading.Lock()
# By the process that started it: one that is forked must not talk with its parent's.
workers: dict[int, subprocess.Popen[bytes]] = {}


def _answer(request: Request) -> bytes | Refusal:
    with _LOCK:
        process = _process()
        assert process.stdin is not None and process.stdout is not None
        try:
            send(request, process.stdin)
            answer = receive(process.stdout)
        except BrokenPipeError:
            answer = None
        except BaseException:
            # Interrupted, it would answer this request when it is asked the next.
            end()
            raise
        if answer is None:
            status = process.wait()
            end()
            raise Died(status, request.seconds)
        return answer


def _process() -> subprocess.Popen[bytes]:
    if os.getpid() not in workers:
        environment = {**os.environ, "PYTHONPATH": own_path()}
        workers[os.getpid()] = start(COMMAND, environment, errors=None)
    return workers[os.getpid()]


@atexit.register
def end() -> None:
    """Ends the process, if there is one."""
    process = workers.pop(os.getpid(), None)
    if process is not None:
        stop(process)


def _ending(status: int) -> str:
    return f"signal {-status}, {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
