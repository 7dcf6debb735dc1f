"""Ranks in one process: what the collectives of a step send from rank to rank.

A rehearsal runs all ranks as one program (dm-link-ranks) on one IREE device, in one memory, where nothing is sent. The
bytes are therefore counted on form placed, while a collective is still one operation that knows its group. They are
those of the cheapest direct algorithm, as in `dmc/placement/transitions.py`: in an all-reduce every rank reduces a
piece and sends it to all others.

One IREE device for each rank was tried, with IREE 3.13. A `--iree-hal-target-device=rank0=local[0]` for each rank,
`iree.abi.affinity` on arguments and results and `flow.tensor.transfer` at each change of rank are enough: IREE places
all else by its operands, loops too, keeps updates in place, and makes each transfer one copy; programs ran with 2 and 4
devices, bit for bit as they should. But it does not place what depends on no argument:

* two ranks that fill equal tensors share one `flow.tensor.empty` or splat, for IREE eliminates common subexpressions
  whatever `stream.affinity` says; if both then insert slices into it (any concatenation), the slices may get no device,
  and the compiler stops: "op affinity … is not compatible with the partition affinity …". It did for 2 of 6 random
  programs of 28 collectives on 4 ranks. No `--iree-stream-partitioning-favor` and no larger
  `--iree-stream-affinity-solver-max-iterations` helps;
* a constant that is transferred stops it too, or crashes the evaluation of constants at compile time, unless it is
  hidden behind `util.optimization_barrier`.

Devices must wait for the stream dialect at command level, where each operation names its device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from dmc.walk import walk

Pairs = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Movement:
    """One collective of a step.

    kind, place: the operation and where it comes from. mesh, axes: what its groups lie along. sent: bytes in one step,
    over all rounds of the loops around it, by (source rank, target rank); no entry for what a rank keeps.
    """

    kind: str
    place: str
    mesh: str
    axes: tuple[str, ...]
    sent: Pairs

    @property
    def bytes(self) -> int:
        """What is sent in one step, over all ranks."""
        return sum(self.sent.values())


def traffic(module: ir.Module) -> list[Movement]:
    """The collectives of `@step`'s module in the order of the text.

    Raises DmcError for a collective in a loop whose number of rounds is not constant, and for broken rules of `dm`.
    """
    dm.verify_symbols(module)
    meshes = {op.sym_name.value: mesh_of(op) for op in module.body.operations if isinstance(op, dm.MeshOp)}
    return [_movement(op, meshes) for op in walk(module.operation) if isinstance(op.opview, COLLECTIVES)]


def _movement(op: ir.Operation, meshes: Mapping[str, Mesh]) -> Movement:
    collective: Any = op.opview
    name, axes = collective.group.mesh.value, dm.group_axes(collective.group)
    mesh, rounds = meshes[name], _rounds(op)
    places = _SENT[op.name](collective, mesh.group_size(axes))
    sent = {
        (group[source], group[target]): size * rounds
        for group in mesh.groups(axes)
        for (source, target), size in places.items()
    }
    return Movement(op.name, str(op.location), name, tuple(axes), sent)


def _rounds(op: ir.Operation) -> int:
    """How often the loops around `op` run it in one step."""
    rounds, around = 1, op.parent
    while around is not None:
        if isinstance(around.operation.opview, scf.ForOp):
            lower, upper, step = (_constant(bound, op) for bound in list(around.operation.operands)[:3])
            rounds *= max(0, ceil((upper - lower) / step))
        around = around.operation.parent
    return rounds


def _constant(bound: ir.Value, op: ir.Operation) -> int:
    if isinstance(bound.owner, ir.Block) or bound.owner.name != "arith.constant":
        raise DmcError(op, "is in a loop whose number of rounds is not constant", "make its bounds and step constants")
    return ir.IntegerAttr(bound.owner.attributes["value"]).value


def _bytes(value: ir.Value) -> int:
    kind = ir.RankedTensorType(value.type)
    return prod(kind.shape) * _element_bytes(kind)


def _element_bytes(kind: ir.RankedTensorType) -> int:
    # What is narrower than a byte takes a byte; an index is as wide as a pointer.
    width = 64 if isinstance(kind.element_type, ir.IndexType) else kind.element_type.width
    return ceil(width / 8)


def _each_to_each(n: int, size: int) -> Pairs:
    return dict.fromkeys(permutations(range(n), 2), size)


def _all_reduce(op: dm.AllReduceOp, n: int) -> Pairs:
    kind = ir.RankedTensorType(op.input.type)
    # The elements that each rank reduces: as equal as they can be.
    pieces = [(prod(kind.shape) + n - 1 - place) // n for place in range(n)]
    return {(i, j): (pieces[j] + pieces[i]) * _element_bytes(kind) for i, j in permutations(range(n), 2)}


def _broadcast(op: dm.BroadcastOp, n: int) -> Pairs:
    root = op.root.value
    return {(root, other): _bytes(op.input) for other in range(n) if other != root}


def _permute(op: dm.PermuteOp, n: int) -> Pairs:
    pairs = zip(*permute_sources_and_targets(op), strict=True)
    return {(source, target): _bytes(op.input) for source, target in pairs if source != target}


# From a collective and the size of its group to the bytes sent between places in the group.
_SENT: dict[str, Callable[[Any, int], Pairs]] = {
    dm.AllGatherOp.OPERATION_NAME: lambda op, n: _each_to_each(n, _bytes(op.input)),
    dm.AllReduceOp.OPERATION_NAME: _all_reduce,
    dm.AllToAllOp.OPERATION_NAME: lambda op, n: _each_to_each(n, _bytes(op.input) // n),
    dm.BroadcastOp.OPERATION_NAME: _broadcast,
    dm.PermuteOp.OPERATION_NAME: _permute,
    dm.ReduceScatterOp.OPERATION_NAME: lambda op, n: _each_to_each(n, _bytes(op.input) // n),
}
