"""For tests of kernels: from form placed to kernels."""

from __future__ import annotations

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes.base import parse_pipeline, run_passes
from dmc.step_function import find_step

BEFORE = "dm-inline-composites,canonicalize,cse,dm-unroll-loops,canonicalize,cse,dm-flatten-collectives"
# What the step may hold beside kernels.
BETWEEN = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "func.return")


def form_kernels(module: ir.Module) -> None:
    """Brings a module of form placed to kernels, and checks that nothing else computes."""
    run_passes(module, parse_pipeline(f"{BEFORE},dm-form-kernels"))
    dm.verify_symbols(module)
    for view in find_step(module).entry_block.operations:
        assert view.operation.name.startswith("dm.") or view.operation.name in BETWEEN, view.operation.name
