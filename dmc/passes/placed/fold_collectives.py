"""dm-fold-collectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.collectives import COLLECTIVES
from dmc.dialect.labels import TENSOR, WHY, Label, label_of, put_label
from dmc.passes.base import NESTED, Pass, run_passes
from dmc.walk import listed

# Takes a collective and the one that produces its operand; returns the folded value, or None to keep both.
Fold = Callable[[Any, Any], ir.Value | None]
AnyFold = TypeVar("AnyFold", bound=Fold)

FOLDS: dict[tuple[str, str], Fold] = {}

_SHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
# The operations that change a value's placement.
_STEPS = (*(op.OPERATION_NAME for op in (*COLLECTIVES, dm.AllSliceOp)), *_SHAPES)


@dataclass(frozen=True)
class FoldCollectives(Pass):
    """Replaces pairs of collectives by one that moves no more bytes; drops unused and repeated ones.

    all_slice of all_reduce becomes reduce_scatter, all_gather of reduce_scatter becomes all_reduce; two gathers, two
    slices or two reductions over different axes become one; a pair of inverses vanishes. A pair stays where the value
    in between has other users (its movement would be needed anyway), where the two are in different blocks (one may be
    in a loop), and where one has a channel. A folded movement has the labels (`dmc/dialect/labels.py`) of both. Linear
    in the number of ops, times the length of the longest chain of duplicated movements, with upstream's `cse` in
    between.
    """

    name = "dm-fold-collectives"

    def run(self, module: ir.Module) -> None:
        count = _movements(module)
        while True:
            _label_alike(module.operation)
            run_passes(module, ("cse",), NESTED)
            # Computations on two merged movements may now be equal, and so may later movements of their results.
            before, count = count, _movements(module)
            if count == before:
                break
        consumers = {consumer for consumer, _ in FOLDS}
        for op in [op for op in listed(module.operation) if op.name in consumers]:
            _fold_with_producers(op)


def _movements(module: ir.Module) -> int:
    return sum(op.name in _STEPS for op in listed(module.operation))


def _label_alike(root: ir.Operation) -> None:
    """Gives equal movements the union of their labels: `cse` compares labels, too."""
    first: dict[ir.Value, ir.Value] = {}
    alike: dict[tuple[str, ...], list[ir.Operation]] = {}
    numbers: dict[ir.Value, int] = {}
    for op in [op for op in listed(root) if op.name in _STEPS]:
        operand = first.get(op.operands[0], op.operands[0])
        says = [f"{name} {op.attributes[name]}" for name in op.attributes if name not in (TENSOR, WHY)]
        number = numbers.setdefault(operand, len(numbers))
        group = alike.setdefault((op.name, str(number), str(op.results[0].type), *says), [])
        group.append(op)
        first[op.results[0]] = group[0].results[0]
    for group in alike.values():
        label = reduce(Label.joined, map(label_of, group))
        for op in group:
            put_label(op, label)


def folds(consumer: type, producer: type) -> Callable[[AnyFold], AnyFold]:
    """Registers the decorated function as the fold of these two ops; the first takes the result of the second."""

    def register(function: AnyFold) -> AnyFold:
        FOLDS[consumer.OPERATION_NAME, producer.OPERATION_NAME] = function  # type: ignore[attr-defined]
        return function

    return register


def _fold_with_producers(op: ir.Operation) -> None:
    """Folds an op with the producer of its operand, then the result with its producer, and so on."""
    while (producer := _foldable_producer(op)) is not None:
        with op.location, ir.InsertionPoint(op):
            folded = FOLDS[op.name, producer.name](op.opview, producer.opview)
        if folded is None:
            return
        if folded != producer.operands[0]:
            put_label(folded.owner.operation, label_of(producer).joined(label_of(op)))
        op.results[0].replace_all_uses_with(folded)
        op.erase()
        if _uses(producer.results[0]) == 0:
            producer.erase()
        if isinstance(folded.owner, ir.Block):
            return
        op = folded.owner.operation


def _foldable_producer(op: ir.Operation) -> ir.Operation | None:
    if len(op.operands) != 1 or isinstance(op.operands[0].owner, ir.Block):
        return None
    producer = op.operands[0].owner.operation
    if (op.name, producer.name) not in FOLDS or producer.block != op.block:
        return None
    # A channel is one group's communicator, and the fold may have another group.
    if "channel" in op.attributes or "channel" in producer.attributes:
        return None
    return producer


@folds(dm.AllSliceOp, dm.AllReduceOp)
def _reduce_and_slice(op: dm.AllSliceOp, reduced: dm.AllReduceOp) -> ir.Value | None:
    """T(n-1) bytes instead of 2T(n-1)."""
    if not _is_used_once(reduced) or not _has_same_ranks(op, reduced):
        return None
    return dm.reduce_scatter(
        reduced.input,
        result=op.result.type,
        dim=op.dim.value,
        reduction=reduced.reduction.value,
        accumulate=reduced.accumulate.value,
        group=op.group,
    ).result


@folds(dm.AllGatherOp, dm.ReduceScatterOp)
def _scatter_and_gather(op: dm.AllGatherOp, scattered: dm.ReduceScatterOp) -> ir.Value | None:
    """2T(n-1) bytes as before, in one movement."""
    if not _is_used_once(scattered) or not _undoes(op, scattered):
        return None
    return dm.all_reduce(
        scattered.input,
        reduction=scattered.reduction.value,
        accumulate=scattered.accumulate.value,
        group=op.group,
    ).result


@folds(dm.AllReduceOp, dm.AllReduceOp)
def _reduce_twice(op: dm.AllReduceOp, reduced: dm.AllReduceOp) -> ir.Value | None:
    """2T(mn-1) bytes over m·n ranks instead of 2T(n(m-1) + m(n-1))."""
    group = _joined(op, reduced)
    is_one_reduction = op.reduction == reduced.reduction and op.accumulate == reduced.accumulate
    if group is None or not is_one_reduction or not _is_used_once(reduced):
        return None
    kind, accumulate = op.reduction.value, op.accumulate.value
    return dm.all_reduce(reduced.input, reduction=kind, accumulate=accumulate, group=group).result


@folds(dm.AllGatherOp, dm.AllGatherOp)
def _gather_twice(op: dm.AllGatherOp, gathered: dm.AllGatherOp) -> ir.Value | None:
    """The same bytes, in one movement. The axis gathered last is the major one of the group."""
    group = _joined(op, gathered)
    if group is None or op.dim != gathered.dim or not _is_used_once(gathered):
        return None
    return dm.all_gather(gathered.input, result=op.result.type, dim=op.dim.value, group=group).result


@folds(dm.AllSliceOp, dm.AllSliceOp)
def _slice_twice(op: dm.AllSliceOp, sliced: dm.AllSliceOp) -> ir.Value | None:
    """The axis sliced first is the major one of the group."""
    group = _joined(sliced, op)
    if group is None or op.dim != sliced.dim:
        return None
    return dm.all_slice(sliced.input, result=op.result.type, dim=op.dim.value, group=group).result


@folds(dm.AllSliceOp, dm.AllGatherOp)
@folds(dm.AllGatherOp, dm.AllSliceOp)
def _gather_and_slice(op: Any, before: Any) -> ir.Value | None:
    """Each is the inverse of the other, since only replicated values are sliced."""
    return before.input if _undoes(op, before) else None


@folds(dm.AllToAllOp, dm.AllToAllOp)
def _exchange_and_back(op: dm.AllToAllOp, before: dm.AllToAllOp) -> ir.Value | None:
    is_back = (op.split_dim, op.concat_dim) == (before.concat_dim, before.split_dim)
    return before.input if is_back and op.group == before.group else None


def _undoes(op: Any, before: Any) -> bool:
    return op.dim == before.dim and op.group == before.group


def _has_same_ranks(op: Any, other: Any) -> bool:
    """Whether the groups have the same members, in any order."""
    same_axes = set(dm.group_axes(op.group)) == set(dm.group_axes(other.group))
    return op.group.mesh == other.group.mesh and same_axes


def _joined(major: Any, minor: Any) -> dm.GroupAttr | None:
    """The group over the axes of both, or None where they share an axis or have different meshes."""
    axes = (*dm.group_axes(major.group), *dm.group_axes(minor.group))
    if major.group.mesh != minor.group.mesh or len(set(axes)) < len(axes):
        return None
    return dm.group(major.group.mesh.value, axes)


def _is_used_once(op: Any) -> bool:
    return _uses(op.result) == 1


def _uses(value: ir.Value) -> int:
    """The number of uses, counted only up to 2: a value may have very many."""
    return len([use for use, _ in zip(value.uses, range(2), strict=False)])
