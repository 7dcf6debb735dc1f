"""IREE's compiler, in a separate process."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from iree.compiler import tools as iree
from iree.compiler.tools import CompilerToolError

from dmc.dialect.iree import FUSION_BARRIER
from dmc.errors import DmcError
from dmc.lowering.equal_results import MERGE_EQUAL
from dmc.target import CPU, Target

# IREE's input, and its program between our two calls, is verified when parsed. Also verifying after each of its passes
# would take a third of its time.
_FAST = "--verify=false"
_MERGE_EQUAL = f"--iree-preprocessing-pass-pipeline=builtin.module({MERGE_EQUAL})"
# torch-mlir's MLIR cannot register an operation with a dot in its name.
_FUSION_BARRIER = (f'"{FUSION_BARRIER}"', '"iree_tensor_ext.compute_barrier.start"')
_DISPATCH = re.compile(r"stream\.cmd\.dispatch (@[\w:@]+)[^\n]*\{\n(.*?)\n\s*\}", re.DOTALL)
_BUFFER = re.compile(r"^\s+(?:ro|rw|wo) ", re.MULTILINE)
_PROCESSOR = "--iree-llvmcpu-target-cpu="
_TENSOR_CORES = "mma.sync"
_ENTRY = re.compile(r"\.visible \.entry (\w+)")
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
    """The output of IREE's compiler for `source`; raises DmcError with its messages if it fails."""
    try:
        output = iree.compile_str(source, extra_args=[*target.iree_flags, _FAST, _MERGE_EQUAL, *flags])
    except CompilerToolError as error:
        raise DmcError(
            f"target '{target.name}'",
            f"IREE cannot compile the step:\n{_errors(str(error))}",
            hint="dump the forms (dump_dir=…) and run iree-compile on the last to see it alone",
        ) from error
    assert output is not None
    return output


def check_target(target: Target) -> None:
    """Raises DmcError for a processor that LLVM does not know."""
    try:
        iree.compile_str(b"func.func @nothing() { return }", extra_args=[*target.iree_flags])
    except CompilerToolError as error:
        known = re.findall(r"List of accepted CPUs: (.*)", str(error))
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


def _errors(report: str) -> str:
    said = report.partition("Diagnostics:")[2].partition("Invoked with:")[0].strip() or report
    lines = [line[:_LONGEST] for line in said.splitlines() if "error:" in line]
    return "\n".join(lines[:5]) or said[:2000]


def check_bindings(schedule: str, target: Target) -> None:
    """Raises DmcError for a kernel with more buffers than IREE's runtime binds: loading or calling it would fail."""
    for name, buffers in _DISPATCH.findall(schedule):
        count = len(_BUFFER.findall(buffers))
        if count > target.most_bindings:
            fact = f"IREE forms a kernel with {count} buffers, but its runtime binds at most {target.most_bindings}"
            hint = "please report the model" if target.name == CPU.name else 'compile without executor="iree"'
            raise DmcError(name, fact, hint=hint)
