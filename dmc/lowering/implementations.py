"""The code of each kernel of a step on a target: dmc's own if available, else IREE's."""

from __future__ import annotations

from collections.abc import Iterable

from dmc._mlir import ir
from dmc.analysis.requests.settings import machine_of, tuning_of
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.machine import machine
from dmc.program.tuning import Table, tables
from dmc.target import Target


def code_for(module: ir.Module, names: Iterable[str], target: Target) -> CodeLibrary:
    """The code for `target` of the private functions `names` of `module`, by name.

    On CUDA an implementation of `dmc.kernels` takes precedence over IREE's code; of its candidates, the one measured
    as fastest, according to the tuning table in the module, then that of the machine's device, then those of other
    devices. Raises DmcError, naming the kernel, for a body that cannot be compiled, and ArtifactError for what is not a
    tuning table.
    """
    names = list(dict.fromkeys(names))
    if not target.has_kernels:
        return compile_kernels(module, names, target)
    # Triton takes long to load, and steps for the CPU do not need it.
    from dmc.lowering.cuda.native import native_kernels

    ours, declined = native_kernels(module, names, _table(module))
    if not declined:
        return ours
    return ours.joined(compile_kernels(module, declined, target))


def _table(module: ir.Module) -> Table:
    """The choices that were measured; of several for a kernel, the user's, else those on the machine's device."""
    product = machine(machine_of(module)).device.product
    found = Table()
    for table in sorted(tables().values(), key=lambda each: each.is_of(product)):
        found = found.joined(table)
    return found.joined(tuning_of(module) or Table())
