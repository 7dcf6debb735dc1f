"""What is decided for the operations of a function, and which of them there is a decision for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.loops.loops import Loops
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding.choice import Choice
from dmc.mesh import Mesh
from dmc.placement.placement import Placement
from dmc.placement.transitions import Tensor

LOOP = "scf.for"
_TERMINATORS = ("func.return", "scf.yield")


@dataclass(frozen=True)
class Decision:
    """What was decided for one operation. made: its results as it gives them; kept: as they are kept from then on.

    bytes: what bringing its operands into place moves, over all ranks. An `scf.for` has no loops of its own: `made` is
    how each tensor that it carries lies.
    """

    op: ir.Operation
    loops: Loops
    choice: Choice
    made: tuple[Placement, ...]
    kept: tuple[Placement, ...]


@dataclass(frozen=True)
class Ends:
    """How a function's tensors come and go. used: where an argument is first brought into another placement."""

    arguments: tuple[Placement | None, ...]
    used: tuple[Placement | None, ...]
    results: tuple[Placement | None, ...]


def decided_ops(block: ir.Block) -> Iterator[ir.Operation]:
    """The operations for which there are decisions: those on tensors in `block`, and in the loops that it holds."""
    for view in block.operations:
        op = view.operation
        if op.name == LOOP:
            yield from decided_ops(op.regions[0].blocks[0])
        if is_decided(op):
            yield op


def is_decided(op: ir.Operation) -> bool:
    """Whether there is a decision for an operation: it gives tensors that are no splats, or is a loop that does."""
    if op.name == LOOP:
        return len(op.results) > 0
    return op.name not in _TERMINATORS and _is_on_tensors(op) and not _makes_splat(op)


def key_of(op: ir.Operation) -> ir.Value:
    """What an operation goes by in mappings: its first result, for the hash of an operation changes with it."""
    return op.results[0]


def tensor_of(value: ir.Value, mesh: Mesh) -> Tensor | None:
    """The whole of a value, or None where it is no tensor."""
    if not isinstance(value.type, ir.RankedTensorType):
        return None
    element = value.type.element_type
    bits = element.width if isinstance(element, ir.FloatType | ir.IntegerType) else 64
    return Tensor(mesh, tuple(value.type.shape), -(-bits // 8))


def _makes_splat(op: ir.Operation) -> bool:
    return len(op.results) == 1 and is_splat(op.results[0])


def _is_on_tensors(op: ir.Operation) -> bool:
    every = (*op.operands, *op.results)
    return len(op.results) > 0 and any(isinstance(value.type, ir.RankedTensorType) for value in every)
