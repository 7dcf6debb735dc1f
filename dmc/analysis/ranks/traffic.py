"""The bytes that the collectives of a step send between ranks.

Counted on form placed, where a collective is still one operation that knows its group. The bytes are those of the
cheapest direct algorithm, as in `dmc/placement/transitions.py`: in an all-reduce every rank reduces a piece and sends
it to all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from math import ceil, prod
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir, scf
from dmc.dialect.collectives import COLLECTIVES, permute_sources_and_targets
from dmc.dialect.placements import mesh_of
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.program.sizes import element_bytes
from dmc.walk import walk

Pairs = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Movement:
    """One collective of a step.

    op: the collective. mesh, axes: those of its groups. sent: bytes in one step, over all iterations of enclosing
    loops, by (source rank, target rank); data that a rank keeps is not listed.
    """

    op: ir.Operation
    mesh: str
    axes: tuple[str, ...]
    sent: Pairs

    @property
    def kind(self) -> str:
        """The name of the operation."""
        return self.op.name

    @property
    def bytes(self) -> int:
        """The bytes sent in one step, over all ranks."""
        return sum(self.sent.values())


def traffic(module: ir.Module) -> list[Movement]:
    """The collectives of `@step`'s module in the order of the text.

    Raises DmcError for a collective in a loop whose trip count is not constant, and for violated rules of `dm`.
    """
    dm.verify_symbols(module)
    meshes = meshes_of(module)
    return [_movement(op, meshes) for op in collectives(module.operation)]


def meshes_of(module: ir.Module) -> dict[str, Mesh]:
    """The meshes that the module declares, by symbol."""
    return {op.sym_name.value: mesh_of(op) for op in module.body.operations if isinstance(op, dm.MeshOp)}


def collectives(root: ir.Operation) -> Iterator[ir.Operation]:
    """Every operation in `root` that sends data to other ranks of a group."""
    return (op for op in walk(root) if isinstance(op.opview, COLLECTIVES))


def sent_at_once(op: ir.Operation, meshes: Mapping[str, Mesh]) -> Pairs:
    """The bytes that a collective sends each time it runs, by (source rank, target rank)."""
    collective: Any = op.opview
    mesh, axes = meshes[collective.group.mesh.value], dm.group_axes(collective.group)
    places = _SENT[op.name](collective, mesh.group_size(axes))
    return {
        (group[source], group[target]): size for group in mesh.groups(axes) for (source, target), size in places.items()
    }


def _movement(op: ir.Operation, meshes: Mapping[str, Mesh]) -> Movement:
    group: dm.GroupAttr = op.opview.group
    rounds = _rounds(op)
    sent = {pair: size * rounds for pair, size in sent_at_once(op, meshes).items()}
    return Movement(op, group.mesh.value, tuple(dm.group_axes(group)), sent)


def _rounds(op: ir.Operation) -> int:
    """How often `op` runs in one step, given its enclosing loops."""
    rounds, around = 1, op.parent
    while around is not None:
        if isinstance(around.operation.opview, scf.ForOp):
            lower, upper, step = (_constant(bound, op) for bound in list(around.operation.operands)[:3])
            rounds *= max(0, ceil((upper - lower) / step))
        around = around.operation.parent
    return rounds


def _constant(bound: ir.Value, op: ir.Operation) -> int:
    if isinstance(bound.owner, ir.Block) or bound.owner.name != "arith.constant":
        raise DmcError(op, "is in a loop whose trip count is not constant", "make the bounds and the step constant")
    return ir.IntegerAttr(bound.owner.attributes["value"]).value


def _bytes(value: ir.Value) -> int:
    kind = ir.RankedTensorType(value.type)
    return prod(kind.shape) * element_bytes(str(kind.element_type))


def _each_to_each(n: int, size: int) -> Pairs:
    return dict.fromkeys(permutations(range(n), 2), size)


def _all_reduce(op: dm.AllReduceOp, n: int) -> Pairs:
    kind = ir.RankedTensorType(op.input.type)
    # The elements that each rank reduces, as even as possible.
    pieces = [(prod(kind.shape) + n - 1 - place) // n for place in range(n)]
    return {
        (i, j): (pieces[j] + pieces[i]) * element_bytes(str(kind.element_type)) for i, j in permutations(range(n), 2)
    }


def _broadcast(op: dm.BroadcastOp, n: int) -> Pairs:
    root = op.root.value
    return {(root, other): _bytes(op.input) for other in range(n) if other != root}


def _permute(op: dm.PermuteOp, n: int) -> Pairs:
    pairs = zip(*permute_sources_and_targets(op), strict=True)
    return {(source, target): _bytes(op.input) for source, target in pairs if source != target}


# From a collective and its group size to the bytes sent between members.
_SENT: dict[str, Callable[[Any, int], Pairs]] = {
    dm.AllGatherOp.OPERATION_NAME: lambda op, n: _each_to_each(n, _bytes(op.input)),
    dm.AllReduceOp.OPERATION_NAME: _all_reduce,
    dm.AllToAllOp.OPERATION_NAME: lambda op, n: _each_to_each(n, _bytes(op.input) // n),
    dm.BroadcastOp.OPERATION_NAME: _broadcast,
    dm.PermuteOp.OPERATION_NAME: _permute,
    dm.ReduceScatterOp.OPERATION_NAME: lambda op, n: _each_to_each(n, _bytes(op.input) // n),
}
