"""What stands between a product and the attention before or behind it: elementwise operations, and views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dmc._mlir import ir, linalg
from dmc.analysis.requests.keeping import ModuleWord, root_of
from dmc.analysis.storage.pieces import RESHAPES
from dmc.dialect.labels import module_path
from dmc.dialect.plan import element_bytes, type_bytes
from dmc.passes.scheduled.tensors.merge_products.side_by_side import Values, alike

TRANSPOSE, GENERIC = "linalg.transpose", "linalg.generic"
MOVES = (*RESHAPES, TRANSPOSE)
# Kernels of attention read and write rows that begin at multiples of this, in bytes.
_ALIGNMENT = 16
_MAPS = [f"affine_map<(d0, d1, d2) -> ({places})>" for places in ("d0, d2", "d2, d1", "d0, d1")]


def maker(value: ir.Value) -> ir.Operation | None:
    """The operation that computes a value; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def moved_from(value: ir.Value) -> ir.Value:
    """The value that this one is, reshaped and transposed."""
    while (op := maker(value)) is not None and op.name in MOVES:
        value = op.operands[0]
    return value


def readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The operations that read a value, directly or reshaped and transposed."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in MOVES and use.operand_number == 0:
            yield from readers(op.results[0])
        else:
            yield op


def only_reader(value: ir.Value) -> ir.Operation | None:
    """The operation that is the only one to read a value, once."""
    uses = list(value.uses)
    return uses[0].owner.operation if len(uses) == 1 else None


def product_behind(value: ir.Value) -> ir.Operation | None:
    """The product from which a matrix is computed elementwise."""
    while (op := maker(value)) is not None and not is_product(op):
        whole = [operand for operand in op.operands[:-1] if _has_shape(operand, value)] if is_elementwise(op) else []
        if len(whole) != 1:
            return None
        (value,) = whole
    return op


def ends(values: Values, dim: int) -> Values:
    """What values become elementwise, all in the same way, as long as that is not wider and nothing else reads them."""
    while True:
        found = [only_reader(value) for value in values]
        ops = [op for op in found if op is not None and is_elementwise(op)]
        if len(ops) < len(values):
            return values
        made = tuple(op.results[0] for op in ops)
        widens = any(type_bytes(new.type) > type_bytes(old.type) for new, old in zip(made, values, strict=True))
        if widens or alike(made, dim) is None:
            return values
        values = made


def are_told_apart(ops: Iterable[ir.Operation], words: Sequence[ModuleWord]) -> bool:
    """Whether `words` mean the modules of some of the operations, and not of all."""
    modules = [module_path(op.location).partition(", ")[0] for op in ops]
    return len({tuple(root_of(word, module) for word in words) for module in modules}) > 1


def is_product(op: ir.Operation) -> bool:
    """Whether an operation multiplies two matrices, neither transposed."""
    return op.name == "linalg.matmul" and [str(each) for each in linalg.get_indexing_maps(op)] == _MAPS


def is_aligned(matrix: ir.Value) -> bool:
    """Whether kernels of attention can read and write a matrix as columns of a wider one."""
    return matrix.type.shape[1] * element_bytes(matrix.type.element_type) % _ALIGNMENT == 0


def is_elementwise(op: ir.Operation) -> bool:
    """Whether an operation computes each element of one result, in loop order."""
    if op.name != GENERIC or len(op.results) != 1:
        return False
    written = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op)][-1]
    return written == ir.AffineMap.get_identity(written.n_dims)


def _has_shape(value: ir.Value, other: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.shape == other.type.shape
