"""Runs torch-mlir's passes in a process of its own, which serves all compilations of this one.

On some operations torch-mlir crashes, or does not finish. That must not take the user's process down: such an operation
is named, with a file that reproduces it (`culprit`).
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
from dmc.errors import DmcError
from dmc.importer.linalg.torch_passes import Refusal, Request, bytecode, receive, send
from dmc.processes import own_path, start, stop

# Imported, not run as a program: what is pickled there has the module's name. Nothing is imported from the folder in
# which the user happens to be.
_SERVE = "from dmc.importer.linalg.torch_passes import serve_standard_streams as serve; serve()"
COMMAND: Sequence[str] = (sys.executable, "-P", "-c", _SERVE)
# The passes may take so long: a hundred times what they take on large steps, on one idle core.
PATIENCE_S = 300


class Died(Exception):
    """A signal ended the process that ran the passes."""

    def __init__(self, number: int, seconds: int) -> None:
        late = number == signal.SIGALRM
        name = signal.Signals(number).name
        super().__init__(f"does not finish within {seconds} s" if late else f"crashes with {name}")


def passed(module: ir.Module, pipeline: str, seconds: int) -> ir.Module | Refusal:
    """`module` after the passes, in its context; `module` itself is unchanged. Raises Died, also after so long."""
    answer = SERVER.answer(Request(pipeline, bytecode(module), seconds))
    return answer if isinstance(answer, Refusal) else ir.Module.parse(answer, module.context)


class Server:
    """The process, started when it is first asked, and again after it died."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def forget(self) -> None:
        """In a forked process: what it inherited serves its parent."""
        self.lock, self.process = threading.Lock(), None

    def answer(self, request: Request) -> bytes | Refusal:
        """See `torch_passes`. Raises Died; DmcError if the process ends in another way."""
        with self.lock:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            try:
                send(request, process.stdin)
                answer = receive(process.stdout)
            except BrokenPipeError:
                answer = None
            except BaseException:
                # Interrupted, it would answer this request when it is asked the next.
                self.end()
                raise
            if answer is None:
                raise self._ended(process, request)
            return answer

    def end(self) -> None:
        """Ends the process, if there is one."""
        process, self.process = self.process, None
        if process is not None:
            stop(process)

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.process = start(COMMAND, {**os.environ, "PYTHONPATH": own_path()}, errors=None)
        return self.process

    def _ended(self, process: subprocess.Popen[bytes], request: Request) -> Exception:
        status = process.wait()
        self.end()
        if status < 0:
            return Died(-status, request.seconds)
        fact = f"the process of its passes ends with exit status {status}"
        return DmcError("torch-mlir", fact, hint="what it wrote is above; please report it")


SERVER = Server()
atexit.register(SERVER.end)
os.register_at_fork(after_in_child=SERVER.forget)
