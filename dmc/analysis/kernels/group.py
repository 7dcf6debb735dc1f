"""Operations that fusion has brought together so far."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dmc._mlir import ir
from dmc.analysis.kernels.shapes import Loops

# A kernel over so many elements takes hardly longer than its launch.
_SMALL = 1 << 14


@dataclass
class Group:
    """members: numbers of operations. reads, writes: its operands and results in memory."""

    members: list[int]
    loops: Loops | None
    reads: set[ir.Value]
    writes: set[ir.Value]

    def is_quick(self) -> bool:
        """Whether it takes no longer than its launch."""
        return self.loops is not None and not self.loops.product and prod(self.loops.over) <= _SMALL

    def sums_columns(self) -> bool:
        """Whether it adds up over other dimensions than the last."""
        return self.loops is not None and self.loops.columns is not None
