"""The cost of a kernel: floating-point operations, bytes through device memory, and what dominates its time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from dmc._mlir import ir, linalg
from dmc.analysis.kernels.contractions import is_contraction
from dmc.analysis.kernels.graph import Graph
from dmc.dialect.plan import element_bytes, type_bytes
from dmc.walk import walk

_SLICES = ("tensor.extract_slice", "dm.all_slice")


@dataclass(frozen=True)
class Work:
    """The work of one operation.

    flops: floating-point operations. iterations: of its loops; without loops, the elements it produces. kind: "matmul",
    "reduction" or "elementwise", and "other" for pure data movement.
    """

    flops: int
    iterations: int
    kind: str


def work_of(op: ir.Operation) -> Work:
    """The work of an operation on tensors of static shape."""
    made = sum(prod(value.type.shape) for value in op.results if isinstance(value.type, ir.RankedTensorType))
    if not op.name.startswith("linalg.") or op.name in ("linalg.transpose", "linalg.broadcast", "linalg.fill"):
        return Work(0, made, "elementwise" if op.name.startswith(("arith.", "math.")) else "other")
    iterations = prod(loop_sizes(op))
    counted = sum(_is_float_op(inner) for inner in walk(op) if inner != op)
    if is_contraction(op):
        return Work(2 * iterations, iterations, "matmul")
    kind = "reduction" if iterations > made / max(len(op.results), 1) else "elementwise"
    return Work(counted * iterations, iterations, kind)


def loop_sizes(op: ir.Operation) -> list[int]:
    """The sizes of the loops of a `linalg` operation, in order."""
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op)]
    sizes = [1] * maps[0].n_dims
    for operand, each in zip(op.operands, maps, strict=True):
        shape = operand.type.shape if isinstance(operand.type, ir.RankedTensorType) else ()
        for place, size in zip(each.results, shape, strict=False):
            if isinstance(place, ir.AffineDimExpr):
                sizes[place.position] = size
    return sizes


def traffic(graph: Graph, body: Sequence[int], inputs: Iterable[ir.Value], outputs: Iterable[ir.Value]) -> int:
    """The bytes through device memory of a kernel: what the operations `body` read of `inputs`, and `outputs`.

    For slices and look-ups, such as rows of an embedding, only the elements taken count.
    """
    taken: dict[ir.Value, int] = {}
    for number in body:
        op = graph.ops[number]
        for i, value in enumerate(graph.reads[number]):
            if isinstance(value.type, ir.RankedTensorType):
                is_whole = i < len(op.operands) and op.name not in _SLICES
                taken[value] = taken.get(value, 0) + (type_bytes(value.type) if is_whole else _looked_up(op, value))
    read = (min(type_bytes(value.type), taken[value]) for value in inputs)
    return sum(read) + sum(type_bytes(value.type) for value in outputs)


def _looked_up(op: ir.Operation, value: ir.Value) -> int:
    return work_of(op).iterations * element_bytes(value.type.element_type)


def dominant(works: Sequence[Work]) -> int:
    """The operation of a kernel that takes the most time: products first, then the largest."""
    ranks = {"matmul": 3, "reduction": 2, "elementwise": 1, "other": 0}
    keys = [(work.kind == "matmul", work.iterations, ranks[work.kind], -i) for i, work in enumerate(works)]
    return max(range(len(works)), key=keys.__getitem__)


def has_function(op: ir.Operation) -> bool:
    """Whether an operation computes a function of its elements, as an exponential, which takes many instructions."""
    return any(inner.name.startswith("math.") for inner in walk(op) if inner != op)


def _is_float_op(op: ir.Operation) -> bool:
    if not op.name.startswith(("arith.", "math.")) or not len(op.results):
        return False
    return isinstance(op.results[0].type, ir.FloatType) and op.name not in ("arith.constant", "arith.select")
