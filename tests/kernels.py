"""For tests of kernels: from form placed to kernels, and their run on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.placements import mesh_of
from dmc.passes.base import parse_pipeline, run_passes
from tests.spmd import Interpreter, Values

Array = NDArray[Any]
BEFORE = "dm-inline-composites,canonicalize,cse,dm-unroll-loops,canonicalize,cse,dm-flatten-collectives"
# What the step may hold beside kernels.
BETWEEN = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "func.return")


@dataclass(frozen=True)
class KernelInterpreter(Interpreter):
    """Runs kernels too, those with variants by the place of the rank in the group."""

    def _op(self, op: Any, values: list[Values]) -> list[list[Any]]:
        if op.name != dm.KernelOp.OPERATION_NAME:
            return super()._op(op, values)
        results: list[list[Any]] = []
        for rank, own in enumerate(values):
            function = self.functions[self._body(op.opview, rank).value]
            results += self._call(function, [[own[operand] for operand in op.operands]])
        return results

    def _body(self, op: dm.KernelOp, rank: int) -> Any:
        if op.variants is None or op.group is None:
            return op.body
        (ranks,) = [each for each in self.mesh.groups(dm.group_axes(op.group)) if rank in each]
        return op.variants[ranks.index(rank)]


def form_kernels(module: ir.Module, options: str = "") -> None:
    """Brings a module of form placed to kernels, and checks that nothing else computes."""
    run_passes(module, parse_pipeline(f"{BEFORE},dm-form-kernels{options and '{' + options + '}'}"))
    dm.verify_symbols(module)
    (step,) = [op for op in module.body.operations if op.operation.attributes["sym_name"].value == "step"]
    for view in step.regions[0].blocks[0].operations:
        assert view.operation.name.startswith("dm.") or view.operation.name in BETWEEN, view.operation.name


def run_kernels(module: ir.Module, arguments: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The results of `@step` by rank; `arguments` likewise."""
    operations = [view.operation for view in module.body.operations]
    functions = {op.attributes["sym_name"].value: op for op in operations if op.name == "func.func"}
    (mesh,) = [op.opview for op in operations if op.name == dm.MeshOp.OPERATION_NAME]
    return KernelInterpreter(mesh_of(mesh), functions).run(functions["step"], arguments).results
