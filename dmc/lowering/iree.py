"""IREE's own compiler, in a process of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from iree.compiler import tools as iree
from iree.compiler.tools import CompilerToolError

from dmc.dialect.iree import FUSION_BARRIER
from dmc.errors import DmcError
from dmc.target import CPU, Target

# What IREE is given, and its program between our two calls, is verified when it is parsed. Verifying after each of its
# passes as well takes a third of its time.
_FAST = "--verify=false"
# Where a dispatch gives equal results, IREE's folding of flow.dispatch.region puts others in their place. That two are
# equal shows once their loops are fused: here that is done, and the two become one, before dispatches are formed.
_FUSED_FIRST = (
    "--iree-preprocessing-pass-pipeline=builtin.module(util.func("
    "iree-dispatch-creation-fold-unit-extent-dims-for-func,"
    "iree-dispatch-creation-fuse-multi-use-elementwise-producer,canonicalize,cse))"
)
# Our MLIR cannot register an operation with a dot in its name.
_FUSION_BARRIER = (f'"{FUSION_BARRIER}"', '"iree_tensor_ext.compute_barrier.start"')
_DISPATCH = re.compile(r"stream\.cmd\.dispatch (@[\w:@]+)[^\n]*\{\n(.*?)\n\s*\}", re.DOTALL)
_BUFFER = re.compile(r"^\s+(?:ro|rw|wo) ", re.MULTILINE)
_TENSOR_CORES = "mma.sync"
_ENTRY = re.compile(r"\.visible \.entry (\w+)")
# IREE names a target by all features of its processor.
_LONGEST = 300


@dataclass(frozen=True)
class Executable:
    """A compiled module and what its program shows.

    statistics: "dispatches" (kernels that a step launches, over all ranks).
    requires: what a processor must have to run it (`required_features`).
    """

    data: bytes
    statistics: Mapping[str, int]
    requires: tuple[str, ...]


def compile_stream(text: str, target: Target, *flags: str) -> bytes:
    """The executable of a stream-level program, which is taken as it stands."""
    return run_iree(text.encode(), target, "--compile-from=stream", *flags)


def stream_text(text: str, target: Target, *flags: str) -> str:
    """IREE's stream-level program for a module of our MLIR."""
    return run_iree(as_input(text), target, "--compile-to=stream", *flags).decode()


def as_input(text: str) -> bytes:
    """A module of our MLIR as IREE reads it."""
    return text.replace(*_FUSION_BARRIER).encode()


def run_iree(source: bytes, target: Target, *flags: str) -> bytes:
    """What IREE's compiler makes of `source`; raises DmcError with its own words where it fails."""
    try:
        output = iree.compile_str(source, extra_args=[*target.iree_flags, _FAST, _FUSED_FIRST, *flags])
    except CompilerToolError as error:
        raise DmcError(
            f"target '{target.name}'",
            f"IREE cannot compile the step:\n{_errors(str(error))}",
            hint="dump the forms (dump_dir=…) and run iree-compile on the last to see it alone",
        ) from error
    assert output is not None
    return output


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
    """Raises DmcError for a kernel of more buffers than IREE's runtime binds: loading or calling it would fail."""
    for name, buffers in _DISPATCH.findall(schedule):
        count = len(_BUFFER.findall(buffers))
        if count > target.most_bindings:
            fact = f"IREE makes one kernel of {count} buffers, and its runtime binds {target.most_bindings} at most"
            hint = "please report the model" if target.name == CPU.name else 'compile without executor="iree"'
            raise DmcError(name, fact, hint=hint)
