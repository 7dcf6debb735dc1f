"""torch-mlir's passes on one module after another: what runs in a process of its own, started by `apart`.

It reads requests, and writes an answer to each, as pickled values prefixed by their length. `python -m
dmc.importer.linalg.torch_passes PIPELINE FILE` runs passes on the module in a file.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from torch_mlir.dialects import torch as torch_dialect

from dmc import dialect
from dmc._mlir import ir, passmanager

_PREFIX = 8
_OWN_DIALECTS = "builtin.module(torch-func-backend-type-conversion)"


@dataclass(frozen=True)
class Request:
    """Passes to run on a module, in bytecode, within so many seconds."""

    pipeline: str
    module: bytes
    seconds: int


@dataclass(frozen=True)
class Refusal:
    """Why passes fail: the locations and messages of their errors."""

    errors: tuple[tuple[str, str], ...]


def answer(request: Request) -> bytes | Refusal:
    """The module after the passes, in bytecode."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        load_dialects(context)
        try:
            module = ir.Module.parse(request.module)
            passmanager.PassManager.parse(request.pipeline).run(module.operation)
        except ir.MLIRError as error:
            return Refusal(tuple((str(each.location), each.message) for each in error.error_diagnostics))
        return bytecode(module)


def load_dialects(context: ir.Context) -> None:
    """torch-mlir's own. One of them has no other way in than a pass that makes its operations."""
    torch_dialect.register_dialect(context)
    with context, ir.Location.unknown():
        passmanager.PassManager.parse(_OWN_DIALECTS).run(ir.Module.create().operation)


def bytecode(module: ir.Module) -> bytes:
    """A module with its locations, as another process parses it."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def serve(read: IO[bytes], write: IO[bytes]) -> None:
    """Answers requests until there are no more. One that takes too long ends the process, with SIGALRM."""
    while (request := receive(read)) is not None:
        signal.alarm(request.seconds)
        answered = answer(request)
        signal.alarm(0)
        send(answered, write)


def send(value: Any, to: IO[bytes]) -> None:
    """Writes a value that `receive` reads."""
    data = pickle.dumps(value)
    to.write(len(data).to_bytes(_PREFIX, "little") + data)
    to.flush()


def receive(source: IO[bytes]) -> Any:
    """The next value; None if the other side has ended, also in the middle of one."""
    length = int.from_bytes(source.read(_PREFIX), "little")
    data = source.read(length)
    return pickle.loads(data) if data and len(data) == length else None


def serve_standard_streams() -> None:
    """Answers requests from standard input."""
    # The process that started this one may ignore or block it.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    out = os.fdopen(os.dup(1), "wb")
    # Whatever else is printed.
    os.dup2(2, 1)
    serve(sys.stdin.buffer, out)


if __name__ == "__main__":
    # 0: without a limit.
    result = answer(Request(sys.argv[1], Path(sys.argv[2]).read_bytes(), 0))
    print(result if isinstance(result, Refusal) else "the passes succeed")
