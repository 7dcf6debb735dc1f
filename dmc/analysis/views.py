"""Values that may be in the memory of an argument."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.dialect.iree import FUSION_BARRIER

# The backend leaves their results, where it can, in the memory of their operands. A barrier to fusion computes nothing.
_VIEWS = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice", FUSION_BARRIER)


def is_of_argument(value: ir.Value) -> bool:
    """Whether the value is an argument of its function, or a reshape or part of one."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.name not in _VIEWS:
            return False
        value = value.owner.operands[0]
    return True
