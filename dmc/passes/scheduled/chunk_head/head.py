"""The head of a model: everything that is computed of each row of logits, from their product to what leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import ir, linalg
from dmc.analysis.kernels.casts import NARROW, is_cast
from dmc.analysis.loops.loops import SUM
from dmc.analysis.loops.scalars import reduction_kind
from dmc.analysis.loops.splats import is_zero
from dmc.passes.scheduled.chunk_head.pieces import loop_dims

LOSS, GRADIENT = "softmax_cross_entropy", "softmax_cross_entropy_backward"
MATMUL = "linalg.matmul"


@dataclass(frozen=True)
class Part:
    """An operation, and the dimensions of operands and results along which rows run."""

    op: ir.Operation
    dims: Mapping[int, int]
    along: Mapping[int, int]


@dataclass
class Head:
    """loss: the operation that computes it. parts: all operations, in their order; the first is the product. whole:
    values of all rows that others read, and the dimension of rows. sums: values that are summed over rows.
    """

    loss: ir.Operation
    parts: list[Part] = field(default_factory=list[Part])
    whole: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    sums: list[ir.Value] = field(default_factory=list[ir.Value])


def head_of(gradient: dm.CompositeOp) -> Head | None:
    """The head whose logits have this gradient; None if it is not a product, or something else reads the logits."""
    _, logits, target, logsumexp = gradient.inputs
    loss = logsumexp.owner.opview if not isinstance(logsumexp.owner, ir.Block) else None
    if not isinstance(loss, dm.CompositeOp) or loss.kind.value != LOSS or list(loss.inputs) != [logits, target]:
        return None
    head = Head(loss.operation)
    if not _add_product(logits, {loss.operation, gradient.operation}, head):
        return None
    # Only the gradient may read the logarithms.
    if [use.owner.operation for use in logsumexp.uses] != [gradient.operation]:
        return None
    head.parts += [
        Part(loss.operation, {0: 0, 1: 0}, {1: 0}),
        Part(gradient.operation, {1: 0, 2: 0, 3: 0}, {0: 0}),
    ]
    head.sums.append(loss.outputs[0])
    if not _add_readers(gradient.outputs[0], 0, head) or not head.whole or _waits_for_itself(head):
        return None
    places = {view.operation: place for place, view in enumerate(gradient.operation.block.operations)}
    head.parts.sort(key=lambda part: places[part.op])
    return head


def _waits_for_itself(head: Head) -> bool:
    """Whether a part reads, by way of other operations, what is known only of all rows, such as the whole loss."""
    parts = {part.op for part in head.parts}
    pending: list[ir.Value] = [*head.sums, *head.whole]
    seen: set[ir.Operation] = set()
    while pending:
        for use in pending.pop().uses:
            reader = use.owner.operation
            # One that reads it in its region depends on it as a whole.
            while reader.block != head.loss.block:
                reader = reader.parent.operation
            if reader in parts:
                return True
            if reader not in seen:
                seen.add(reader)
                pending += reader.results
    return False


def _add_product(value: ir.Value, readers: set[ir.Operation], head: Head) -> bool:
    """Adds what computes logits elementwise from a product, and that product, if none but `readers` read them."""
    if isinstance(value.owner, ir.Block) or {use.owner.operation for use in value.uses} != readers:
        return False
    op = value.owner.operation
    dims = loop_dims(op, len(op.operands) - 1, 0)
    if dims is None:
        return False
    if op.name != MATMUL:
        *maps, out = map(ir.AffineMapAttr, linalg.get_indexing_maps(op) or ())
        same = ir.AffineMap.get_identity(out.value.n_dims)
        read = [operand for operand, each in zip(op.operands, maps, strict=False) if each.value == same]
        if out.value != same or len(read) != 1 or not _add_product(read[0], {op}, head):
            return False
    head.parts.append(Part(op, dims, {0: 0}))
    return True


def _add_readers(value: ir.Value, dim: int, head: Head) -> bool:
    """Adds what reads the gradient, up to values without its columns or its rows; False for what cannot be split."""
    for use in value.uses:
        op = use.owner.operation
        dims = loop_dims(op, use.operand_number, dim)
        if dims is None or any(op == part.op for part in head.parts):
            return False
        out = len(op.operands) - 1
        result = op.results[0]
        if out not in dims:
            if not _is_sum(op):
                return False
            head.parts.append(Part(op, dims, {}))
            head.sums.append(result)
        elif op.name == MATMUL:
            head.parts.append(Part(op, dims, {0: dims[out]}))
            _add_product_of_rows(result, dims[out], head)
        else:
            head.parts.append(Part(op, dims, {0: dims[out]}))
            if not _add_readers(result, dims[out], head):
                return False
    return True


def _is_sum(op: ir.Operation) -> bool:
    """Whether an operation adds up floats, beginning with zero."""
    last = len(op.operands) - 1
    if not isinstance(op.operands[last].type.element_type, ir.FloatType) or not is_zero(op.operands[last]):
        return False
    if op.name == MATMUL:
        return True
    return op.name == "linalg.generic" and reduction_kind(op.regions[0].blocks[0], 0, last) == SUM


def _add_product_of_rows(product: ir.Value, dim: int, head: Head) -> None:
    """A product of rows is whole again behind a cast that narrows it, since one kernel computes both."""
    readers = [use.owner.operation for use in product.uses]
    if len(readers) == 1 and is_cast(readers[0], NARROW):
        head.parts.append(Part(readers[0], {0: dim, 1: dim}, {0: dim}))
        product = readers[0].results[0]
    head.whole[product] = dim
