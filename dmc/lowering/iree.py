"""Form lowered → an IREE module, by IREE's own compiler in a process of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from iree.compiler import tools as iree
from iree.compiler.tools import CompilerToolError

from dmc._mlir import ir
from dmc.dialect.iree import FUSION_BARRIER
from dmc.errors import DmcError
from dmc.lowering.cpu_features import required_features
from dmc.lowering.kept_arguments import check_kept_arguments
from dmc.lowering.matmul_tiles import with_tiles
from dmc.target import CPU, Target

# The step returns before it has run and signals a fence when it is done.
_ASYNC = "--iree-execution-model=async-external"
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
# (buffer, first byte, number of bytes) -> that part of the buffer: what IREE's Python bindings cannot do.
_SUBSPAN = """
module @subspan {
  util.func public @subspan(%buffer: !hal.buffer, %offset: i64, %length: i64) -> !hal.buffer {
    %first = arith.index_cast %offset : i64 to index
    %size = arith.index_cast %length : i64 to index
    %part = hal.buffer.subspan<%buffer : !hal.buffer>[%first, %size] : !hal.buffer
    util.return %part : !hal.buffer
  }
}
"""
_CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : index")
_DISPATCH = re.compile(r"stream\.cmd\.dispatch (@[\w:@]+)[^\n]*\{\n(.*?)\n\s*\}", re.DOTALL)
_BUFFER = re.compile(r"^\s+(?:ro|rw|wo) ", re.MULTILINE)
_MOST_BINDINGS = 32
# IREE names a target by all features of its processor.
_LONGEST = 300
_ALLOCATION = re.compile(r"stream\.resource\.alloca .*!stream\.resource<(\w+)>\{(%\w+)\}")


@dataclass(frozen=True)
class Executable:
    """A compiled module and what its schedule shows.

    statistics: "transient_bytes" (device memory that a step takes beside its state and gives back), "dispatches"
    (kernels launched by a step, loops counted once).
    requires: what a processor must have to run it (`required_features`).
    """

    data: bytes
    statistics: Mapping[str, int]
    requires: tuple[str, ...]


def compile_module(module: ir.Module, target: Target) -> Executable:
    """Compiles `module` for `target`; raises DmcError with IREE's own words where it fails, and where what it makes of
    the module would write what the step only reads.
    """
    schedule = schedule_of(module.operation.get_asm(), target).decode()
    check_bindings(schedule)
    check_kept_arguments(schedule)
    if target.name == CPU.name:
        schedule = with_tiles(schedule, os.cpu_count() or 1)
    data = compile_stream(schedule, target)
    return Executable(data, _statistics(schedule), required_features(schedule))


def compile_subspan(target: Target) -> bytes:
    """The module with the function `subspan`, by which the runtime finds state in arenas."""
    return run_iree(_SUBSPAN.encode(), target)


def schedule_of(text: str, target: Target) -> bytes:
    """IREE's stream-level program for the text of form lowered: every allocation, copy and dispatch of a step."""
    return stream_text(text, target, _ASYNC).encode()


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


def _errors(report: str) -> str:
    said = report.partition("Diagnostics:")[2].partition("Invoked with:")[0].strip() or report
    lines = [line[:_LONGEST] for line in said.splitlines() if "error:" in line]
    return "\n".join(lines[:5]) or said[:2000]


def check_bindings(schedule: str) -> None:
    """Raises DmcError for a kernel of more buffers than IREE's runtime binds: it would fail when it is called."""
    for name, buffers in _DISPATCH.findall(schedule):
        count = len(_BUFFER.findall(buffers))
        if count > _MOST_BINDINGS:
            fact = f"IREE makes one kernel of {count} buffers, and its runtime binds {_MOST_BINDINGS} at most"
            raise DmcError(name, fact, hint="use fewer ranks, or layers, in one program; please report the model")


def _statistics(schedule: str) -> dict[str, int]:
    constants = dict(_CONSTANT.findall(schedule))
    sizes = [int(constants[size]) for kind, size in _ALLOCATION.findall(schedule) if kind == "transient"]
    return {"transient_bytes": sum(sizes), "dispatches": schedule.count("stream.cmd.dispatch ")}
