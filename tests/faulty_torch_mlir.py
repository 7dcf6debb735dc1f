"""torch-mlir with a fault where a module contains some text: `python -m tests.faulty_torch_mlir FAULT TEXT`."""

from __future__ import annotations

import os
import signal
import sys
import time

from dmc import dialect
from dmc._mlir import ir
from dmc.importer.linalg import torch_passes
from dmc.importer.linalg.torch_passes import Refusal, Request, answer


def _answer(request: Request) -> bytes | Refusal:
    fault, text = sys.argv[1:]
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        torch_passes.load_dialects(context)
        is_faulty = text in str(ir.Module.parse(request.module))
    if is_faulty and fault == "crashed":
        os.kill(os.getpid(), signal.SIGSEGV)
    if is_faulty and fault == "late":
        time.sleep(60)
    return answer(request)


if __name__ == "__main__":
    torch_passes.answer = _answer
    torch_passes.serve_standard_streams()
