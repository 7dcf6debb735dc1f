"""dm-exchange-sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir, tensor
from dmc.analysis.ranks.traffic import meshes_of
from dmc.analysis.requests.settings import costs_of
from dmc.analysis.requests.verbs import verbs_of
from dmc.dialect.labels import label_of, put_label
from dmc.dialect.plan import type_bytes
from dmc.machine import Machine
from dmc.machine.collectives import links_of
from dmc.mesh import Mesh
from dmc.passes.base import Pass
from dmc.passes.placed.exchange_sums.buckets import bucketed
from dmc.passes.shared.loops import PARALLEL, loops, scalar
from dmc.plans.verbs import Bucket
from dmc.program import ALIGNMENT
from dmc.walk import listed


@dataclass(frozen=True)
class ExchangeSums(Pass):
    """Makes large sums over ranks of movements alone, which copy engines carry, and of additions in kernels.

    An adding movement (NCCL's kernels) takes multiprocessors and power from the kernels beside it; a copy engine takes
    neither, and the addition is fused with what reads the sum. `reduce_scatter(%x)` becomes the sum of the pieces that
    `all_to_all(%x)` delivers. `all_reduce(%x)` over two ranks becomes `%x + permute(%x)`, which sends as many bytes;
    over more, the sum of pieces and an `all_gather` (as Thakur, Rabenseifner and Gropp, "Optimization of collective
    communication operations in MPICH", 2005, with each piece sent to its owner directly). Values are added in group
    order in the type in which the reduction accumulates, and rounded once, as in the rehearsal on a CPU; two are the
    same in either order.

    An exchange between more than two begins with a meeting of all, and ends with a copy of the own piece that waits for
    the kernels beside it. So consecutive sums of up to `bucket_bytes` bytes together share theirs, side by side in one
    buffer without a copy (`buckets.py`); up to what the plan says instead, where it does (`dm.verbs`). Between two
    `dm-bucket` does that.

    Only on GPUs, where all ranks of a group reach each other's memory over one link of `machine` (the module's, if
    empty), and for sums of at least `min_bytes` bytes of floating-point numbers: small ones are a matter of latency.
    """

    name = "dm-exchange-sums"
    min_bytes: int = 1 << 20
    bucket_bytes: int = 24 << 20
    machine: str = ""

    def run(self, module: ir.Module) -> None:
        """Raises DmcError where a rule of the dialect does not hold, and for a machine without these ranks."""
        dm.verify_symbols(module)
        sums = [op for op in listed(module.operation) if op.name in _RULES and self._is_large(op)]
        if not sums:
            return
        meshes, on = meshes_of(module), costs_of(module, self.machine)
        exchanged = [op for op in sums if _is_reached(on, *_group(op, meshes))]
        shared = dict.fromkeys(op for op in exchanged if _may_share(op, meshes))
        apart = [op for op in exchanged if op not in shared]
        blocks = list(dict.fromkeys(op.block for op in shared))
        limit = next((asked.bytes for asked in verbs_of(module, Bucket)), self.bucket_bytes)
        merged = [op for block in blocks for op in bucketed(block, shared.keys(), limit)]
        for op in [*apart, *merged]:
            _exchange(op, _ranks(op, meshes))

    def _is_large(self, op: ir.Operation) -> bool:
        given: Any = op.operands[0].type
        is_sum = op.opview.reduction.value == "sum" and isinstance(given.element_type, ir.FloatType)
        return is_sum and "channel" not in op.attributes and type_bytes(given) >= self.min_bytes


def _group(op: ir.Operation, meshes: Mapping[str, Mesh]) -> tuple[Mesh, Sequence[str]]:
    group: Any = op.opview.group
    return meshes[group.mesh.value], dm.group_axes(group)


def _ranks(op: ir.Operation, meshes: Mapping[str, Mesh]) -> int:
    mesh, axes = _group(op, meshes)
    return mesh.group_size(axes)


def _may_share(op: ir.Operation, meshes: Mapping[str, Mesh]) -> bool:
    """Whether a sum may have a part in a bucket: of whole aligned pieces, so that no padding stands between."""
    ranks = _ranks(op, meshes)
    is_divided = type_bytes(op.operands[0].type) % (ranks * ALIGNMENT) == 0
    return op.name == dm.AllReduceOp.OPERATION_NAME and ranks > 2 and is_divided


def _is_reached(on: Machine, mesh: Mesh, axes: Sequence[str]) -> bool:
    """Whether the ranks of each group copy out of each other's memory."""
    groups = mesh.groups(axes)
    used = [link for group in groups for link in links_of(on, group)]
    return len(groups[0]) > 1 and all(link.copy_slowdown is not None for link in used)


def _exchange(op: ir.Operation, ranks: int) -> None:
    with op.location, ir.InsertionPoint(op):
        made = _RULES[op.name](op.opview, ranks)
    if made is not None:
        op.results[0].replace_all_uses_with(made)
        op.erase()


def _all_reduce(op: dm.AllReduceOp, ranks: int) -> ir.Value | None:
    if ranks == 2:
        other = dm.permute(op.input, source_target_pairs=((0, 1), (1, 0)), group=op.group)
        put_label(other.operation, label_of(op.operation))
        return _added([op.input, other.result], op.accumulate.value)
    shape = list(op.input.type.shape)
    dim = next((dim for dim, size in enumerate(shape) if size % ranks == 0), None)
    if dim is None:
        return None
    piece = _added(_pieces(op, dim, ranks), op.accumulate.value)
    gathered = dm.all_gather(piece, result=op.result.type, dim=dim, group=op.group)
    put_label(gathered.operation, label_of(op.operation))
    return gathered.result


def _reduce_scatter(op: dm.ReduceScatterOp, ranks: int) -> ir.Value:
    return _added(_pieces(op, op.dim.value, ranks), op.accumulate.value)


Rule = Callable[[Any, int], ir.Value | None]
_RULES: Mapping[str, Rule] = {
    dm.AllReduceOp.OPERATION_NAME: _all_reduce,
    dm.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
}


def _pieces(op: Any, dim: int, ranks: int) -> list[ir.Value]:
    """This rank's piece along a dimension of each rank's value, in group order, one behind the other in memory."""
    piece = list(op.input.type.shape)
    piece[dim] //= ranks
    element = op.input.type.element_type
    whole = ir.RankedTensorType.get([ranks * piece[0], *piece[1:]], element)
    moved = dm.all_to_all(op.input, result=whole, split_dim=dim, concat_dim=0, group=op.group)
    put_label(moved.operation, label_of(op.operation))
    strides, kind = [1] * len(piece), ir.RankedTensorType.get(piece, element)
    offsets = ([index * piece[0], *[0] * (len(piece) - 1)] for index in range(ranks))
    return [tensor.ExtractSliceOp(kind, moved.result, [], [], [], offset, piece, strides).result for offset in offsets]


def _added(values: Sequence[ir.Value], accumulate: ir.Type) -> ir.Value:
    """The sum of values in this order, in a type no narrower than theirs."""
    kind: Any = values[0].type
    element, is_wide = kind.element_type, accumulate == kind.element_type

    def body(*elements: ir.Value) -> ir.Value:
        given = list(elements[:-1])
        if not is_wide:
            given = [ir.Operation.create("arith.extf", [accumulate], [each]).results[0] for each in given]
        total = reduce(lambda left, right: scalar("arith.addf", left, right), given)
        return total if is_wide else ir.Operation.create("arith.truncf", [element], [total]).results[0]

    place = [ir.AffineDimExpr.get(dim) for dim in range(len(kind.shape))]
    empty = tensor.empty(list(kind.shape), element)
    return loops([*values, empty], [place] * (len(values) + 1), [PARALLEL] * len(kind.shape), body).results[0]
