"""IREE's compiler, in a separate process."""

from __future__ import annotations

import difflib
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.compiler.tools.binaries import find_tool
from iree.compiler.version import VERSION

from dmc.cache import cached
from dmc.dialect.iree import FUSION_BARRIER
from dmc.errors import CodegenError, DmcError
from dmc.lowering.iree.cpu_features import processor
from dmc.lowering.iree.equal_results import MERGE_EQUAL
from dmc.processes import Ended, run
from dmc.target import CPU, Target

# IREE's input, and its program between our two calls, is verified when parsed. Also verifying after each of its passes
# would take a third of its time.
_FAST = "--verify=false"
_MERGE_EQUAL = f"--iree-preprocessing-pass-pipeline=builtin.module({MERGE_EQUAL})"
# torch-mlir's MLIR cannot register an operation with a dot in its name.
_FUSION_BARRIER = (f'"{FUSION_BARRIER}"', '"iree_tensor_ext.compute_barrier.start"')
_DISPATCH = re.compile(r"stream\.cmd\.dispatch (@[\w:@]+)[^\n]*\{\n(.*?)\n\s*\}", re.DOTALL)
_BUFFER = re.compile(r"^\s+(?:ro|rw|wo) ", re.MULTILINE)
_KERNEL = re.compile(r"@(\w+?)(?:_dispatch_\d+\w*)?\b")
_PROCESSOR = "--iree-llvmcpu-target-cpu="
_TENSOR_CORES = "mma.sync"
_ENTRY = re.compile(r"\.visible \.entry (\w+)")
# A module may take so long to compile, and longer for each kernel: a hundred times what most take on one idle core.
PATIENCE_S, EACH_S = 300.0, 5.0
_KERNELS = (b"func.func @", b"stream.executable ", b"hal.executable.variant ")
_MADE, _REFUSED = b"+", b"-"
# IREE names a target by all features of its processor.
_LONGEST = 300


@dataclass(frozen=True)
class Executable:
    """A compiled module and facts about its program.

    statistics: "dispatches" (kernels that a step launches, over all ranks).
    requires: the features a processor must have to run it (`required_features`).
    """

    data: bytes
    statistics: Mapping[str, int]
    requires: tuple[str, ...]


def compile_stream(text: str, target: Target, *flags: str) -> bytes:
    """The executable of a stream-level program, which is compiled as written."""
    return run_iree(text.encode(), target, "--compile-from=stream", *flags)


def stream_text(text: str, target: Target, *flags: str) -> str:
    """IREE's stream-level program for a module of torch-mlir's MLIR."""
    return run_iree(as_input(text), target, "--compile-to=stream", *flags).decode()


def as_input(text: str) -> bytes:
    """A module of torch-mlir's MLIR in the form that IREE reads."""
    return text.replace(*_FUSION_BARRIER).encode()


def run_iree(source: bytes, target: Target, *flags: str) -> bytes:
    """The output of IREE's compiler for `source`; raises CodegenError with its messages if it fails."""
    command = command_of(target, *flags)
    answer = cached((*_versions(target), *command[1:], source), lambda: _answer(source, target, command))
    if answer[:1] == _REFUSED:
        raise _error(target, Ended(b"", answer[1:].decode(), 1))
    return answer[1:]


def dumped_binaries(source: bytes, target: Target, suffix: str, *flags: str) -> bytes:
    """The files with that suffix, joined, that IREE's compiler writes of its code. Raises as `run_iree` does."""
    command = command_of(target, *flags)

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as directory:
            _run(source, target, [*command, f"--iree-hal-dump-executable-binaries-to={directory}"])
            return b"".join(path.read_bytes() for path in sorted(Path(directory).glob(f"*{suffix}")))

    return cached((*_versions(target), suffix, *command[1:], source), make)


def command_of(target: Target, *flags: str) -> list[str]:
    """The command line of IREE's compiler, which reads standard input."""
    program = find_tool("iree-compile")
    return [program, "-", "--mlir-print-op-on-diagnostic=false", *target.iree_flags, _FAST, _MERGE_EQUAL, *flags]


def _versions(target: Target) -> tuple[str, ...]:
    """What determines code beside its source and the command line."""
    return (VERSION, processor()) if f"{_PROCESSOR}host" in target.iree_flags else (VERSION,)


def _answer(source: bytes, target: Target, command: Sequence[str]) -> bytes:
    """The output, or the messages of a refusal. Raises CodegenError for a crash or a hang, which may not repeat."""
    try:
        return _MADE + _run(source, target, command)
    except CodegenError as error:
        if error.how != "refused":
            raise
        return _REFUSED + error.report.encode()


def _run(source: bytes, target: Target, command: Sequence[str]) -> bytes:
    kernels = max(map(source.count, _KERNELS))
    ended = run(command, source, PATIENCE_S + kernels * EACH_S)
    if ended.status != 0:
        raise _error(target, ended)
    sys.stderr.write(ended.errors)
    return ended.output


def _error(target: Target, ended: Ended) -> CodegenError:
    place, hint = f"target '{target.name}'", "write its operations with simpler ones, or report the model"
    if ended.status is None:
        return CodegenError(place, "IREE's compiler does not end in time", hint, report=ended.errors, how="late")
    if ended.status < 0:
        fact = f"IREE's compiler crashes with signal {-ended.status}"
        return CodegenError(place, fact, hint, report=ended.errors, how="crashed")
    # After its message, IREE shows where it failed: lines of the input functions, or the dispatches.
    fact = f"IREE refuses it:\n{_messages(ended.errors)}"
    return CodegenError(place, fact, hint, set(_KERNEL.findall(ended.errors)), ended.errors)


def check_target(target: Target) -> None:
    """Raises DmcError for a processor that LLVM does not know."""
    try:
        run_iree(b"func.func @nothing() { return }", target)
    except CodegenError as error:
        known = re.findall(r"List of accepted CPUs: (.*)", error.report)
        if not known:
            raise
        name = next(flag for flag in target.iree_flags if _PROCESSOR in flag).removeprefix(_PROCESSOR)
        near = difflib.get_close_matches(name, known[0].split(", "), n=3) or ["x86-64-v3", "generic"]
        hint = f"use LLVM's name for it, such as {' or '.join(near)}"
        raise DmcError(f"target 'cpu:{name}'", "is not a processor that LLVM knows", hint=hint) from None


def check_products(ptx: str) -> None:
    """Raises DmcError for code of IREE's with products on tensor cores (see `dmc.target.CUDA`)."""
    place = ptx.find(_TENSOR_CORES)
    if place >= 0:
        *_, entry = _ENTRY.findall(ptx[:place])
        fact = "IREE multiplies narrow numbers by code that reads beyond its operands"
        raise DmcError(f"kernel entry {entry}", fact, hint='use precision="fp32", or report the model')


def _messages(report: str) -> str:
    lines = [line[:_LONGEST] for line in report.splitlines() if "error:" in line]
    return "\n".join(lines[:5]) or report[:2000]


def check_bindings(schedule: str, target: Target) -> None:
    """Raises CodegenError for kernels with more buffers than IREE's runtime binds, which would fail when called."""
    counts = [(name, len(_BUFFER.findall(buffers))) for name, buffers in _DISPATCH.findall(schedule)]
    large = {name: count for name, count in counts if count > target.most_bindings}
    for name, count in large.items():
        fact = f"IREE forms a kernel with {count} buffers, but its runtime binds at most {target.most_bindings}"
        hint = "please report the model" if target.name == CPU.name else 'compile without executor="iree"'
        raise CodegenError(name, fact, hint, _KERNEL.findall(" ".join(large)))
