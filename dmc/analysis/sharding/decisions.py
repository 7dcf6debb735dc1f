"""Decisions for the operations of a function, and which operations have one."""

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
    """The decision for one operation. made: the placements in which its results are computed; kept: in which they are
    kept.

    bytes: moved by resharding its operands, over all ranks. An `scf.for` has no loops here: `made` are the placements
    of loop-carried tensors.
    """

    op: ir.Operation
    loops: Loops
    choice: Choice
    made: tuple[Placement, ...]
    kept: tuple[Placement, ...]


@dataclass(frozen=True)
class Ends:
    """The placements of a function's arguments and results. used: the placement into which an argument is first
    resharded. weights: the arguments that are parameters, frozen ones included, by index.
    """

    arguments: tuple[Placement | None, ...]
    used: tuple[Placement | None, ...]
    results: tuple[Placement | None, ...]
    weights: frozenset[int] = frozenset()


def decided_ops(block: ir.Block) -> Iterator[ir.Operation]:
    """The operations with decisions: those on tensors in `block`, and in its loops."""
    for view in block.operations:
        op = view.operation
        if op.name == LOOP:
            yield from decided_ops(op.regions[0].blocks[0])
        if is_decided(op):
            yield op


def is_decided(op: ir.Operation) -> bool:
    """Whether an operation has a decision: it, or the loop it is, returns tensors that are not splats."""
    if op.name == LOOP:
        return len(op.results) > 0
    return op.name not in _TERMINATORS and _is_on_tensors(op) and not _makes_splat(op)


def key_of(op: ir.Operation) -> ir.Value:
    """An operation's key in mappings: its first result, since the hash of an operation is not stable."""
    return op.results[0]


def tensor_of(value: ir.Value, mesh: Mesh) -> Tensor | None:
    """The global tensor of a value, or None if it is not a tensor."""
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
