"""Form lowered → an IREE module, by IREE's own compiler in a process of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from iree.compiler import tools as iree
from iree.compiler.tools import CompilerToolError

from dmc._mlir import ir
from dmc.errors import DmcError
from dmc.lowering.cpu_features import required_features
from dmc.target import Target

# The step returns before it has run and signals a fence when it is done.
_ASYNC = "--iree-execution-model=async-external"
# IREE ends an execution region, with its own allocations, at each util.optimization_barrier. What form lowered means is
# this one, which keeps kernels from being fused and then vanishes; our MLIR cannot register a name with a dot in it.
_BARRIER = ('"util.optimization_barrier"', '"iree_tensor_ext.compute_barrier.start"')
_CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : index")
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
    """Compiles `module` for `target`; raises DmcError with IREE's own words where it fails."""
    schedule = schedule_of(module.operation.get_asm(), target)
    text = schedule.decode()
    data = _run(schedule, target, "--compile-from=stream")
    return Executable(data, _statistics(text), required_features(text))


def schedule_of(text: str, target: Target) -> bytes:
    """IREE's stream-level program for the text of form lowered: every allocation, copy and dispatch of a step."""
    return _run(text.replace(*_BARRIER).encode(), target, "--compile-to=stream", _ASYNC)


def _run(source: bytes, target: Target, *flags: str) -> bytes:
    try:
        output = iree.compile_str(source, extra_args=[*target.iree_flags, *flags])
    except CompilerToolError as error:
        raise DmcError(
            f"target '{target.name}'",
            f"IREE cannot compile the step:\n{_errors(str(error))}",
            hint="dump the forms (dump_dir=…) and run iree-compile on the last to see it alone",
        ) from error
    assert output is not None
    return output


def _errors(report: str) -> str:
    lines = [line for line in report.splitlines() if "error:" in line]
    return "\n".join(lines[:5]) or report[-2000:]


def _statistics(schedule: str) -> dict[str, int]:
    constants = dict(_CONSTANT.findall(schedule))
    sizes = [int(constants[size]) for kind, size in _ALLOCATION.findall(schedule) if kind == "transient"]
    return {"transient_bytes": sum(sizes), "dispatches": schedule.count("stream.cmd.dispatch ")}
