"""The code of each kernel of a step on a target: dmc's own if available, else IREE's."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

import dmc.kernels
from dmc._mlir import ir
from dmc.analysis.requests.settings import tuning_of
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels import compile_kernels
from dmc.program.tuning import Table
from dmc.target import Target

_TABLES = Path(dmc.kernels.__file__).parent / "tuned"


def code_for(module: ir.Module, names: Iterable[str], target: Target) -> CodeLibrary:
    """The code for `target` of the private functions `names` of `module`, by name.

    On CUDA an implementation of `dmc.kernels` takes precedence over IREE's code; of its candidates, the one measured
    as fastest, according to the tuning table in the module and those that come with dmc. Raises DmcError, naming the
    kernel, for a body that cannot be compiled, and ArtifactError for what is not a tuning table.
    """
    names = list(dict.fromkeys(names))
    if not target.has_kernels:
        return compile_kernels(module, names, target)
    # Triton takes long to load, and steps for the CPU do not need it.
    from dmc.lowering.native import native_kernels

    ours, declined = native_kernels(module, names, _table(module))
    if not declined:
        return ours
    return ours.joined(compile_kernels(module, declined, target))


def _table(module: ir.Module) -> Table:
    """The choices that were measured: those of the user's table go before those that come with dmc."""
    packaged = functools.reduce(Table.joined, map(Table.read, sorted(_TABLES.glob("*.json"))), Table())
    return packaged.joined(tuning_of(module) or Table())
