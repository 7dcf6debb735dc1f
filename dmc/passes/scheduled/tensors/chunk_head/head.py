"""The head of a model: everything that is computed of each row of logits, from their product to what leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, is_cast
from dmc.analysis.loops.loops import PARALLEL, SUM
from dmc.analysis.loops.rules import loops_of
from dmc.analysis.loops.shape_classes import loops_with_index
from dmc.analysis.loops.splats import is_zero
from dmc.composites import LOSS

MATMUL = "linalg.matmul"


@dataclass(frozen=True)
class Part:
    """An operation, and the dimensions of operands and results along which rows run. Other results are sums of rows."""

    op: ir.Operation
    dims: Mapping[int, int]
    along: Mapping[int, int]

    @staticmethod
    def of(op: ir.Operation, operand: int, dim: int) -> Part | None:
        """By the rows that run along a dimension of an operand; None for what cannot be computed of some of them."""
        loops = loops_of(op)
        rows = (loops.operands[operand] or ())[dim]
        if len(rows) != 1 or rows[0] in loops_with_index(op) or loops.loops[rows[0]].numbered:
            return None
        dims = {i: each.index(rows) for i, each in enumerate(loops.operands) if each is not None and rows in each}
        along = {i: each.index(rows) for i, each in enumerate(loops.results) if rows in each}
        sums = [result for i, result in enumerate(op.results) if i not in along]
        # A sum that does not begin with zero would begin again in each chunk.
        begun = [op.operands[i] for i in loops.carried if i not in dims]
        is_sum = not sums or (loops.loops[rows[0]].kind == SUM and all(map(is_zero, begun)))
        is_float = all(isinstance(value.type.element_type, ir.FloatType) for value in sums)
        return Part(op, dims, along) if is_sum and is_float else None


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
    for op, out in ((loss.operation, 0), (gradient.operation, 1)):
        part = Part.of(op, out, 0)
        assert part is not None, "the rows of a loss are computed apart"
        head.parts.append(part)
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
    out = len(op.operands) - 1
    part = Part.of(op, out, 0) if op.name.startswith("linalg.") and len(op.results) == 1 else None
    if part is None:
        return False
    if op.name != MATMUL:
        loops = loops_of(op)
        read = [op.operands[i] for i in range(out) if loops.operands[i] == loops.results[0]]
        is_reduced = any(loop.kind != PARALLEL for loop in loops.loops)
        if is_reduced or len(read) != 1 or not _add_product(read[0], {op}, head):
            return False
    head.parts.append(part)
    return True


def _add_readers(value: ir.Value, dim: int, head: Head) -> bool:
    """Adds what reads the gradient, up to values without its columns or its rows; False for what cannot be split."""
    for use in value.uses:
        op = use.owner.operation
        is_known = op.name.startswith("linalg.") and op.block == head.loss.block and len(op.results) == 1
        part = Part.of(op, use.operand_number, dim) if is_known else None
        if part is None or any(op == each.op for each in head.parts):
            return False
        head.parts.append(part)
        result = op.results[0]
        if not part.along:
            head.sums.append(result)
        elif op.name == MATMUL:
            _add_product_of_rows(result, part.along[0], head)
        elif not _add_readers(result, part.along[0], head):
            return False
    return True


def _add_product_of_rows(product: ir.Value, dim: int, head: Head) -> None:
    """A product of rows is whole again behind a cast that narrows it, since one kernel computes both."""
    readers = [use.owner.operation for use in product.uses]
    if len(readers) == 1 and is_cast(readers[0], NARROW):
        head.parts.append(Part(readers[0], {0: dim, 1: dim}, {0: dim}))
        product = readers[0].results[0]
    head.whole[product] = dim
