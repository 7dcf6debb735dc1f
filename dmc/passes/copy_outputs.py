"""dm-copy-outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.views import is_of_argument
from dmc.dialect.iree import fusion_barrier
from dmc.passes import _arenas
from dmc.passes.base import Pass
from dmc.step_function import find_step, outputs


@dataclass(frozen=True)
class CopyOutputs(Pass):
    """Gives an output of `@step` memory of its own where it is an argument, or a reshape or part of one.

    `return %x` becomes `return extract_slice(barrier(insert_slice %x into %larger))`.

    An argument does not keep what it holds: state is overwritten by the step itself, and the memory of a batch is
    filled again. The backend elides a plain copy; one into a larger tensor it has to make.
    """

    name = "dm-copy-outputs"

    def run(self, module: ir.Module) -> None:
        step = find_step(module)
        (terminator,) = [op.operation for op in step.entry_block.operations if op.operation.name == "func.return"]
        for port in outputs(step):
            if is_of_argument(value := terminator.operands[port.index]):
                terminator.operands[port.index] = _copy(value)


def _copy(value: ir.Value) -> ir.Value:
    """Emits a copy of `value` where `value` is, which is before anything that overwrites it."""
    owner = value.owner
    at = ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)
    shape = ir.RankedTensorType(value.type).shape
    with at, value.location:
        larger = fusion_barrier(_arenas.gather([value], [0], math.prod(shape) + 1))
        return _arenas.part(larger, shape)
