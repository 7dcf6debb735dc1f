"""dm-pad-classes."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, is_cast
from dmc.analysis.kernels.layouts import permutation
from dmc.composites import LOSS_GRADIENT
from dmc.dialect.kinds import traits_of
from dmc.dialect.plan import element_bytes
from dmc.passes.base import Pass
from dmc.passes.scheduled.tensors.pad_classes.widened import MATMUL, TRANSPOSE, Widened, is_of_product, sliced
from dmc.passes.shared.unread import erase_unread
from dmc.step_function import find_step

# Matrix products are fast where rows begin at multiples of this, in bytes.
_ALIGNMENT = 16
# Padded sizes are multiples of this: it divides the tiles of matrix products.
_MULTIPLE = 64


@dataclass(frozen=True)
class PadClasses(Pass):
    """Pads the classes of a loss with zeros where rows are not aligned, so that the products around it are fast.

    For 50257 classes the loss reads, of `%l = matmul(%x, transpose(%w))`, `%l = slice(matmul(%x, transpose(pad(%w))))`,
    whose product has 50304. Its gradient `%g` is padded: `matmul(%g, %w)` becomes `matmul(pad(%g), pad(%w))`, and
    `matmul(transpose(%g), %x)` a slice of `matmul(transpose(pad(%g)), %x)`. The values read do not change, as sums only
    gain zeros.

    On CUDA only, for composites kept whole: their kernels read slices and write padding. Not where padding would more
    than double the classes.
    """

    name = "dm-pad-classes"

    def run(self, module: ir.Module) -> None:
        block = find_step(module).entry_block
        widened = Widened()
        for view in list(block.operations):
            if isinstance(view, dm.CompositeOp) and traits_of(view).classes is not None:
                _pad(view, widened)
        if widened.known:
            erase_unread(block)


def _pad(op: dm.CompositeOp, widened: Widened) -> None:
    """Pads the logits that a loss reads, and the gradient that it returns."""
    is_backward = op.kind.value == LOSS_GRADIENT
    logits = op.inputs[1 if is_backward else 0]
    width = _padded_width(ir.RankedTensorType(logits.type))
    if width is None:
        return
    if is_of_product(logits):
        logits.replace_all_uses_with(sliced(widened.of(logits, 1, width), logits.type))
    if is_backward and any(_is_read_by_product(use.owner.operation) for use in op.outputs[0].uses):
        _Readers(widened, width).pad(op.outputs[0], 1)


def _padded_width(logits: ir.RankedTensorType) -> int | None:
    """The number of classes with padding; None where there should be none."""
    classes = logits.shape[1]
    width = -(-classes // _MULTIPLE) * _MULTIPLE
    is_aligned = classes * element_bytes(logits.element_type) % _ALIGNMENT == 0
    return None if is_aligned or width > 2 * classes else width


def _is_read_by_product(reader: ir.Operation) -> bool:
    if reader.name == TRANSPOSE:
        return any(use.owner.name == MATMUL for use in reader.results[0].uses)
    return reader.name == MATMUL


@dataclass(frozen=True)
class _Readers:
    """Lets a value's readers read it with `width` elements along a dimension, or a slice of that."""

    widened: Widened
    width: int

    def pad(self, value: ir.Value, dim: int) -> None:
        readers = [(use.owner.operation, use.operand_number) for use in value.uses]
        wide = self.widened.of(value, dim, self.width)
        for reader, index in readers:
            if reader.name == TRANSPOSE and index == 0:
                self.pad(reader.results[0], permutation(reader).index(dim))
            elif reader.name == MATMUL and index < 2 and index != dim:
                # The sum runs along the dimension: in the other operand, too.
                reader.operands[index] = wide
                reader.operands[dim] = self.widened.of(reader.operands[dim], 1 - dim, self.width)
            elif reader.name == MATMUL and index < 2:
                self._slice_behind(reader.results[0], dim)
            else:
                reader.operands[index] = sliced(wide, value.type)

    def _slice_behind(self, product: ir.Value, dim: int) -> None:
        """Slices a product, or its narrowing cast if that is its only reader, as one kernel returns that."""
        narrowed = [use.owner.operation.results[0] for use in product.uses if is_cast(use.owner.operation, NARROW)]
        given = narrowed[0] if narrowed and len(list(product.uses)) == 1 else product
        given.replace_all_uses_with(sliced(self.widened.of(given, dim, self.width), given.type))
