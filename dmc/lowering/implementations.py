"""The code of each kernel of a step on a target: dmc's own if available, else IREE's."""

from __future__ import annotations

from collections.abc import Iterable

from dmc._mlir import ir
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels import compile_kernels
from dmc.target import Target


def code_for(module: ir.Module, names: Iterable[str], target: Target) -> CodeLibrary:
    """The code for `target` of the private functions `names` of `module`, by name.

    On CUDA an implementation of `dmc.kernels` takes precedence over IREE's code. Raises DmcError, naming the kernel,
    for a body that cannot be compiled.
    """
    names = list(dict.fromkeys(names))
    if not target.has_kernels:
        return compile_kernels(module, names, target)
    # Triton takes long to load, and steps for the CPU do not need it.
    from dmc.lowering.native import native_kernels

    ours, declined = native_kernels(module, names)
    if not declined:
        return ours
    return ours.joined(compile_kernels(module, declined, target))
