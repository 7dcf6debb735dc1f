"""dm-chunk-head."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.casts import WIDEN, is_cast
from dmc.analysis.requests.settings import memory_cap_of
from dmc.composites import LOSS_GRADIENT
from dmc.dialect.iree import FUSION_BARRIER
from dmc.dialect.plan import element_bytes
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.passes.scheduled.tensors.chunk_head.definitions import Definitions
from dmc.passes.scheduled.tensors.chunk_head.head import Head, head_of
from dmc.passes.scheduled.tensors.chunk_head.pieces import Pieces, added
from dmc.passes.shared.operands_first import operands_first
from dmc.passes.shared.slices import concatenated
from dmc.passes.shared.unread import erase_unread
from dmc.step_function import find_step

# Rows of a chunk: fewer would make its products slower. And a chunk has whole tiles of them.
_LEAST, _TILE = 4096, 256
# Bytes of logits that are worth another sum of gradients of weights.
_LARGE = 256 << 20
# Chunks under a cap on memory: each takes that sum.
_MOST = 4


@dataclass(frozen=True)
class ChunkHead(Pass):
    """Computes logits, their loss and what follows from their gradient for some rows after others.

    `%l = matmul(%x, %w)`, `%loss = cross_entropy(%l)`, `%g = cross_entropy_backward(%l)`, `%dx = matmul(%g, wᵀ)` and
    `%dw = matmul(xᵀ, %g)` become the same of some rows of `%x`, then of the next: `%dx` is their concatenation, `%loss`
    and `%dw` are sums. Logits are the largest tensors of many models, and only a chunk of them is in memory (as in Hsu
    et al., "Liger Kernel", 2024, section 3.2).

    On CUDA, for composites kept whole, under a cap on memory: where logits are large, as many chunks as leave each
    enough rows. Not where something else reads the logits, their gradient depends on the whole loss, or is reduced in
    another way; nor in the loop of `accumulate`.

    chunks: how many, whatever the size; 0: as said.
    """

    name = "dm-chunk-head"
    chunks: int = 0

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for rows that are not divisible by `chunks`."""
        if not self.chunks and not memory_cap_of(module):
            return
        block = find_step(module).entry_block
        found = [op for op in block.operations if isinstance(op, dm.CompositeOp) and op.kind.value == LOSS_GRADIENT]
        # One after another: what one head waits for depends on how those before it are split.
        split = [self._split(op, module) for op in found]
        if any(split):
            operands_first(block)
            erase_unread(block)

    def _split(self, gradient: dm.CompositeOp, module: ir.Module) -> bool:
        """Whether there is a head to split."""
        count = self.chunks or chunks_of(gradient)
        head = head_of(gradient) if count > 1 else None
        if head is None:
            return False
        rows = gradient.inputs[1].type.shape[0]
        if rows % count:
            fact = f"has {rows} rows of logits, which are not divisible by {count}"
            raise DmcError(gradient.operation, fact, hint="set chunks to a divisor")
        # Where the loss is: what reads it stays behind.
        with ir.InsertionPoint(head.loss), head.loss.location:
            _Split(head, Definitions(module, count)).run()
        return True


def chunks_of(gradient: dm.CompositeOp) -> int:
    """Into how many chunks rows are split: the most, a power of two, that leaves enough rows to each."""
    logits = ir.RankedTensorType(gradient.inputs[1].type)
    rows, classes = logits.shape
    if rows * classes * element_bytes(logits.element_type) < _LARGE:
        return 1
    count = 1
    while 2 * count <= _MOST and rows % (2 * count * _TILE) == 0 and rows // (2 * count) >= _LEAST:
        count *= 2
    return count


@dataclass
class _Split:
    """Replaces a head by its chunks, at the insertion point."""

    head: Head
    definitions: Definitions
    parts: dict[ir.Value, list[ir.Value]] = field(default_factory=dict[ir.Value, list[ir.Value]])
    totals: dict[ir.Value, ir.Value] = field(default_factory=dict[ir.Value, ir.Value])

    def run(self) -> None:
        for index in range(self.definitions.count):
            self._compute(Pieces(index, self.definitions.count))
        for value, dim in self.head.whole.items():
            value.replace_all_uses_with(concatenated(self.parts[value], dim))
        for value, total in self.totals.items():
            value.replace_all_uses_with(total)
        for part in reversed(self.head.parts):
            assert not any(list(result.uses) for result in part.op.results), "read outside of the head"
            part.op.erase()

    def _compute(self, pieces: Pieces) -> None:
        if pieces.index:
            self._wait(pieces)
        for part in self.head.parts:
            copy = pieces.compute(part.op, part.dims, part.along)
            if part.op.name == dm.CompositeOp.OPERATION_NAME:
                copy.attributes["decomposition"] = self.definitions.of(part.op, part.dims, part.along)
            for value, own in zip(part.op.results, copy.results, strict=True):
                if value in self.head.sums:
                    self.totals[value] = added(self.totals[value], own) if pieces.index else own
        for value, dim in self.head.whole.items():
            self.parts.setdefault(value, []).append(pieces.of(value, dim))

    def _wait(self, pieces: Pieces) -> None:
        """Lets the product of a chunk wait for all of the chunk before it, whose logits are gone then."""
        product = self.head.parts[0]
        rows, dim = product.op.operands[0], product.dims[0]
        if not isinstance(rows.owner, ir.Block) and is_cast(rows.owner.operation, WIDEN):
            rows = rows.owner.operands[0]
        own = pieces.of(rows, dim)
        for value in (*self.totals.values(), *(each[-1] for each in self.parts.values())):
            own = ir.Operation.create(FUSION_BARRIER, [own.type], [own, value]).results[0]
        pieces.known[rows, dim] = own
