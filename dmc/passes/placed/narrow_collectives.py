"""dm-narrow-collectives."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir, tensor
from dmc.analysis.kernels.casts import NARROW, WIDEN, is_addition, is_cast
from dmc.dialect.plan import type_bytes
from dmc.passes.base import Pass
from dmc.passes.shared.loops import PARALLEL, loops
from dmc.walk import listed

_SUMS = (dm.AllReduceOp.OPERATION_NAME, dm.ReduceScatterOp.OPERATION_NAME)
# Smaller values are not worth a kernel that casts.
_LEAST_BYTES = 1 << 16
_MOVES = tuple(each.OPERATION_NAME for each in (dm.AllGatherOp, dm.AllToAllOp, dm.PermuteOp, dm.BroadcastOp))


@dataclass(frozen=True)
class NarrowCollectives(Pass):
    """Moves values before they are widened, and after they are narrowed: half the bytes.

    `all_reduce(extf(%x))` becomes `extf(all_reduce(%x))`: a gradient that is computed in bf16 is summed in bf16, so its
    product writes what is moved. `truncf(all_gather(%x))` becomes `all_gather(truncf(%x))`, if nothing else reads what
    is gathered. What is only moved keeps its bits. A sum is rounded to the narrow type, as on one rank, where one
    product sums over the whole batch; since NCCL rounds after each addition, sums over more than `most_ranks` ranks
    stay wide. So do small values, such as gradients of biases, which share a bucket and the kernels that read it with
    others.

    `all_reduce(extf(%x) + extf(%y))` becomes `extf(all_reduce(truncf(extf(%x) + extf(%y))))`: the gradients that
    several products give their common factor under tensor parallelism are added, rounded as each of them is, and moved,
    as in Megatron-LM; with `widened_sums=false` they move wide.
    """

    name = "dm-narrow-collectives"
    most_ranks: int = 8
    widened_sums: bool = True

    def run(self, module: ir.Module) -> None:
        """Raises DmcError where a rule of the dialect does not hold."""
        dm.verify_symbols(module)
        symbols = dm.Symbols.of(module)
        for op in reversed([op for op in listed(module.operation) if op.name in _MOVES and _is_large(op)]):
            _narrow_before(op)
        for op in [op for op in listed(module.operation) if op.name in (*_SUMS, *_MOVES) and _is_large(op)]:
            if op.name in _MOVES or symbols.group_size(op.opview.group) <= self.most_ranks:
                if self.widened_sums and op.name in _SUMS:
                    _round_before(op)
                _widen_behind(op)


def _is_large(op: ir.Operation) -> bool:
    return max(type_bytes(value.type) for value in (op.operands[0], op.results[0])) >= _LEAST_BYTES


def _widen_behind(op: ir.Operation) -> None:
    """`move(widen(x))` becomes `widen(move(x))`."""
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or not is_cast(owner.operation, WIDEN):
        return
    cast = owner.operation
    with op.location, ir.InsertionPoint(op):
        moved = _moved(op, cast.operands[0])
        op.results[0].replace_all_uses_with(_cast(cast, moved, op.results[0].type))
    op.erase()
    _erase_unread(cast)


def _round_before(op: ir.Operation) -> None:
    """`move(widen(x) + widen(y))` becomes `move(widen(narrow(widen(x) + widen(y))))`."""
    total = op.operands[0]
    cast = _widening_of(total)
    if cast is None or cast.results[0] == total:
        return
    with op.location, ir.InsertionPoint(op):
        rounded = _narrowed(total, ir.RankedTensorType(cast.operands[0].type).element_type)
        op.operands[0] = _cast(cast, rounded, ir.RankedTensorType(total.type))


def _narrowed(value: ir.Value, element: ir.Type) -> ir.Value:
    shape = list(ir.RankedTensorType(value.type).shape)
    place = [ir.AffineDimExpr.get(dim) for dim in range(len(shape))]

    def body(wide: ir.Value, _: ir.Value) -> ir.Value:
        return ir.Operation.create(NARROW, [element], [wide]).results[0]

    empty = tensor.empty(shape, element)
    return loops([value, empty], [place, place], [PARALLEL] * len(shape), body).results[0]


def _widening_of(value: ir.Value) -> ir.Operation | None:
    """A cast from the one narrow type from which all summands of a value are widened."""
    casts: list[ir.Operation] = []
    summands = [value]
    # A weight that is used many times has a long sum.
    for each in summands:
        if isinstance(each.owner, ir.Block):
            return None
        op = each.owner.operation
        if is_cast(op, WIDEN):
            casts.append(op)
        elif is_addition(op):
            summands += list(op.operands)[:-1]
        else:
            return None
    types = {str(ir.RankedTensorType(each.operands[0].type).element_type) for each in casts}
    return casts[0] if len(types) == 1 else None


def _narrow_before(op: ir.Operation) -> None:
    """`narrow(move(x))` becomes `move(narrow(x))`."""
    readers = [use.owner.operation for use in op.results[0].uses]
    if not readers or not all(is_cast(each, NARROW) for each in readers):
        return
    if len({str(each.results[0].type) for each in readers}) > 1:
        return
    with op.location, ir.InsertionPoint(op):
        element = ir.RankedTensorType(readers[0].results[0].type).element_type
        type_ = ir.RankedTensorType.get(ir.RankedTensorType(op.operands[0].type).shape, element)
        moved = _moved(op, _cast(readers[0], op.operands[0], type_))
    for reader in readers:
        reader.results[0].replace_all_uses_with(moved)
        reader.erase()
    op.erase()


def _moved(op: ir.Operation, value: ir.Value) -> ir.Value:
    """The same movement of another value, in its element type."""
    copy = op.clone()
    copy.operands[0] = value
    shape = ir.RankedTensorType(op.results[0].type).shape
    copy.results[0].set_type(ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type))
    return copy.results[0]


def _cast(cast: ir.Operation, value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The same cast of another value, to `type_`."""
    empty = tensor.empty(list(type_.shape), type_.element_type)
    copy = cast.clone()
    copy.operands[0], copy.operands[1] = value, empty
    copy.results[0].set_type(type_)
    return copy.results[0]


def _erase_unread(op: ir.Operation) -> None:
    if not any(list(result.uses) for result in op.results):
        op.erase()
