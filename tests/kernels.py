"""For tests of kernels: from form placed to kernels, and those of a compiled step."""

from __future__ import annotations

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.problems import PlacedProblem, problem_of_body
from dmc.passes.base import parse_pipeline, run_passes
from dmc.runtime import Step
from dmc.step_function import find_step, functions, symbol

BEFORE = "dm-inline-composites,canonicalize,cse,dm-unroll-loops,canonicalize,cse,dm-flatten-collectives"
# What the step may hold beside kernels.
BETWEEN = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "func.return")


def form_kernels(module: ir.Module) -> None:
    """Brings a module of form placed to kernels, and checks that nothing else computes."""
    run_passes(module, parse_pipeline(f"{BEFORE},dm-form-kernels"))
    dm.verify_symbols(module)
    for view in find_step(module).entry_block.operations:
        assert view.operation.name.startswith("dm.") or view.operation.name in BETWEEN, view.operation.name


def problems(step: Step) -> dict[str, PlacedProblem]:
    """The problems of the step's kernels that have one, by the kernel's name."""
    text = next(text for stem, text in step.snapshot().ir.items() if stem.endswith("planned"))
    with ir.Context() as context, ir.Location.unknown():
        dm.load(context)
        module = ir.Module.parse(text)
        found = {symbol(each): problem_of_body(each) for each in functions(module)}
    return {name: each for name, each in found.items() if each is not None}
