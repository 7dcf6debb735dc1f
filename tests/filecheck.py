"""LLVM's FileCheck, for lit and for pytest."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

# A variable without `$` ends at the next CHECK-LABEL, so no function of a test can lean on another.
FLAGS = ("--enable-var-scope", "--dump-input=fail", "--dump-input-filter=error")

_LLVM = Path("/usr/lib/llvm-22/bin")


def find_filecheck() -> str:
    """The path of FileCheck: the one in the triton wheel, else LLVM 22's. Raises FileNotFoundError."""
    triton = importlib.util.find_spec("triton")
    folders = [*(triton.submodule_search_locations or ())] if triton is not None else []
    for candidate in [*(Path(folder) / "FileCheck" for folder in folders), _LLVM / "FileCheck"]:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    if (found := shutil.which("FileCheck-22")) is not None:
        return found
    raise FileNotFoundError("no FileCheck: install the extra `dev` (its triton wheel carries it) or llvm-22-tools")
