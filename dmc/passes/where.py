"""The targets for which a pass runs, as `pipeline.py` says it.

A step is compiled once for all of its targets, which share its plan: one for "cpu+cuda" is a GPU's, which a CPU
carries out as well. So what pays on a GPU is done if one is among them (`GPU`). What only kernels of dmc can follow
wants all targets to have these (`GPUS`), since IREE compiles the kernels of the others; what helps IREE's code wants
none to have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.requests.settings import target_of
from dmc.target import CPU as PROCESSOR
from dmc.target import Target, targets


@dataclass(frozen=True)
class Where:
    """A condition on all targets of a step."""

    name: str
    holds: Callable[[Sequence[Target]], bool]

    def of(self, module: ir.Module) -> bool:
        """Whether it holds for the targets that a module names."""
        return self.holds(targets(target_of(module)))


GPU = Where("GPU", lambda chosen: any(each.has_kernels for each in chosen))
GPUS = Where("GPUs alone", lambda chosen: all(each.has_kernels for each in chosen))
IREE = Where("IREE alone", lambda chosen: not any(each.has_kernels for each in chosen))
CPU = Where("CPU", lambda chosen: all(each.name == PROCESSOR.name for each in chosen))
