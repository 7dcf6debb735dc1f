"""The error for a kernel that has no code: where it is in the model, and a file that reproduces it."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from pathlib import Path

from dmc._mlir import ir
from dmc.dialect.labels import place_of
from dmc.errors import CodegenError
from dmc.lowering.iree.compiler import as_input, command_of
from dmc.target import Target


def kernel_error(
    module: ir.Module, name: str, error: CodegenError, text: str, target: Target, *flags: str
) -> CodegenError:
    """`error` as users see it, of the function `name` of `module`; `text` is what IREE gets of it, with these flags."""
    place = place_of(ir.SymbolTable(module.operation)[name].location)
    where = f"kernel @{name}, {place}" if place else f"kernel @{name}"
    hint = f"{error.hint}; {_reproducer(name, text, target, *flags)} reproduces this"
    return CodegenError(where, error.fact, hint, [name], error.report, error.how)


def _reproducer(name: str, text: str, target: Target, *flags: str) -> Path:
    """A file with the kernel, and the command line that compiles it."""
    source = as_input(text)
    path = Path(tempfile.gettempdir()) / f"dmc-{name}-{hashlib.sha256(source).hexdigest()[:8]}.mlir"
    _, _, *options = command_of(target, *flags)
    head = f"// iree-compile {shlex.join([str(path), *options])}\n"
    path.write_bytes(head.encode() + source)
    return path
