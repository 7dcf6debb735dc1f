"""Mixtures of experts: composites `expert_order`, `grouped_product` and `grouped_outer_product`, deterministic and
without atomics."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dmc.dtypes import FACTORS
from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, TensorType, moved_once
from dmc.kernels.recipe import Call, Recipe, View, operands, results, scratch
from dmc.kernels.references import experts as reference
from dmc.program.sizes import element_bytes

# Rows of tiles of comparisons are as wide as there are experts.
_MAX_EXPERTS = 1024
_MOST_COMPARED = 1 << 16
_SCANNED = 1024
# Of the rows that the copy engine takes, in bytes.
_ALIGNMENT = 16
_MIN_TILE = 16


@dataclass(frozen=True)
class OrderShape:
    """The static parameters of the order of so many slots of each part. columns: the groups and what fills them up.
    block: slots of a program, of so many blocks. scanned: blocks that are added up at a time."""

    slots: int
    experts: int
    columns: int
    block: int
    blocks: int
    scanned: int


@dataclass(frozen=True)
class ProductShape:
    """The static parameters of products of rows [parts, rows, depth] with matrices [groups, depth, columns], or
    transposed ones if `turned`; of outer products, whose results are such matrices. columns_of_groups: these and two
    more, filled up. tiles: of rows of each part. across: tiles beside each other. mapped: the copy engine takes the
    tiles. precision: of products of f32."""

    parts: int
    rows: int
    depth: int
    columns: int
    groups: int
    columns_of_groups: int
    turned: bool
    block_rows: int
    block_columns: int
    block_depth: int
    tiles: int
    across: int
    mapped: bool
    precision: str = "ieee"


def _refuses_order(problem: Problem) -> str | None:
    if any(tensor.strides for tensor in (*problem.operands, *problem.results)):
        return "a tensor is not contiguous"
    if problem.results[2].shape[1] > _MAX_EXPERTS:
        return f"more than {_MAX_EXPERTS} experts"
    return None if 0 < problem.operands[0].elements < 1 << 30 else "no slot, or too many"


def _order_candidates(problem: Problem) -> tuple[Candidate, ...]:
    return candidate(block=128, warps=4), candidate(block=64, warps=4), candidate(block=128, warps=8)


def _order(problem: Problem, chosen: Candidate) -> Recipe:
    experts, (parts, slots) = problem.results[2].shape[1], problem.operands[0].shape
    columns = _power(experts + 1)
    block = max(16, min(chosen["block"], _MOST_COMPARED // columns))
    blocks = -(-slots // block)
    shape = OrderShape(slots, experts, columns, block, blocks, min(_SCANNED, _power(blocks)))
    (expert,), made, (counts, before, totals) = operands(0), results(0, 1, 2, 3), scratch(0, 1, 2)
    each = TensorType("i32", (parts, experts + 1, blocks))
    calls = (
        Call("experts.count", parts * blocks, (expert, counts), shape, chosen.warps),
        Call("experts.scan", parts * (experts + 1), (counts, before, totals), shape),
        Call("experts.put", parts * blocks, (expert, before, totals, *made), shape, chosen.warps),
    )
    return Recipe(calls, (each, each, TensorType("i32", (parts, experts + 1))))


def _refuses_product(problem: Problem) -> str | None:
    first, second, begins, ends = problem.operands
    if any(tensor.strides for tensor in (first, second, begins, ends, *problem.results)):
        return "a tensor is not contiguous"
    if first.dtype != second.dtype or first.dtype not in FACTORS:
        return f"elements of types {first.dtype} and {second.dtype} are not accumulated in f32"
    if not 0 < ends.shape[1] <= _MAX_EXPERTS:
        return f"no group, or more than {_MAX_EXPERTS}"
    return None if first.elements and second.elements and first.shape[1] < 1 << 30 else "no row, or too many"


def _product_candidates(problem: Problem) -> tuple[Candidate, ...]:
    if problem.operands[0].dtype == "f32":
        return (candidate(rows=64, columns=64, depth=32, warps=4, stages=3),)
    return (
        candidate(rows=128, columns=256, depth=64, warps=8, stages=3),
        candidate(rows=256, columns=128, depth=64, warps=8, stages=3),
        candidate(rows=128, columns=128, depth=64, warps=4, stages=3),
        candidate(rows=128, columns=256, depth=64, warps=8, stages=4),
    )


def _product(problem: Problem, chosen: Candidate) -> Recipe:
    rows, matrices = problem.operands[:2]
    turned = bool(problem.get("turned", False))
    shape = _product_shape(problem, chosen, rows.shape, problem.results[0].shape[2])
    # Each group, and what is before the first and behind the last, may leave a tile incomplete.
    tiles = (shape.rows + (shape.groups + 2) * (shape.block_rows - 1)) // shape.block_rows
    shape = replace(shape, turned=turned, tiles=tiles)
    programs, buffers = shape.parts * tiles * shape.across, (*operands(0, 1, 2, 3), *results(0))
    plain = Call("experts.multiply", programs, buffers, shape, chosen.warps, chosen.stages)
    sizes = (shape.block_columns, shape.block_depth) if turned else (shape.block_depth, shape.block_columns)
    return _mapped(problem, plain, _view(rows, shape.block_rows, shape.block_depth), _view(matrices, *sizes))


def _outer_product(problem: Problem, chosen: Candidate) -> Recipe:
    left, right = problem.operands[:2]
    # Of a candidate, `depth` is what is summed at a time: here these are rows.
    turned = candidate(rows=chosen["depth"], columns=chosen["columns"], depth=chosen["rows"])
    shape = _product_shape(problem, turned, left.shape, right.shape[2])
    programs = shape.groups * -(-shape.depth // shape.block_depth) * shape.across
    buffers = (*operands(0, 1, 0, 1, 2, 3), *results(0))
    plain = Call("experts.multiply_columns", programs, buffers, shape, chosen.warps, chosen.stages)
    block = shape.block_rows
    return _mapped(problem, plain, _view(left, block, shape.block_depth), _view(right, block, shape.block_columns))


def _product_shape(problem: Problem, chosen: Candidate, sizes: tuple[int, ...], columns: int) -> ProductShape:
    """sizes: of the rows."""
    groups = problem.operands[3].shape[1]
    block_columns = min(chosen["columns"], max(_MIN_TILE, _power(columns)))
    parts, rows, depth = sizes
    return ProductShape(
        parts=parts,
        rows=rows,
        depth=depth,
        columns=columns,
        groups=groups,
        columns_of_groups=_power(groups + 2),
        turned=False,
        block_rows=chosen["rows"],
        block_columns=block_columns,
        block_depth=chosen["depth"],
        tiles=0,
        across=-(-columns // block_columns),
        mapped=False,
    )


def _view(tensor: TensorType, *tile: int) -> View:
    """Tiles of a tensor's matrices."""
    return View(tensor.shape, tensor.steps(), (1, *tile))


def _mapped(problem: Problem, plain: Call, *views: View) -> Recipe:
    """The launch whose first buffers the copy engine takes, where it can."""
    if not _is_mapped(problem):
        return Recipe((plain,))
    others = (None,) * (len(plain.buffers) - len(views))
    return Recipe((replace(plain, shape=replace(plain.shape, mapped=True), views=(*views, *others), plain=plain),))


def _is_mapped(problem: Problem) -> bool:
    """Whether the copy engine can take rows of both factors."""
    factors = problem.operands[:2]
    return all(each.shape[-1] * element_bytes(each.dtype) % _ALIGNMENT == 0 for each in factors)


def _power(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def _order_cost(problem: Problem) -> Cost:
    return Cost(problem.operands[0].elements, moved_once(problem))


def _product_cost(problem: Problem) -> Cost:
    return Cost(2 * problem.operands[0].elements * problem.results[0].shape[-1], moved_once(problem))


register(
    Implementation(
        name="counted_order",
        kind="expert_order",
        refuses=_refuses_order,
        candidates=_order_candidates,
        reference=reference.expert_order,
        sample=reference.sample_order,
        cost=_order_cost,
        recipe=_order,
    )
)
register(
    Implementation(
        name="tiled_groups",
        kind="grouped_product",
        refuses=_refuses_product,
        candidates=_product_candidates,
        reference=reference.grouped_product,
        sample=reference.sample_groups,
        cost=_product_cost,
        recipe=_product,
    )
)
register(
    Implementation(
        name="summed_groups",
        kind="grouped_outer_product",
        refuses=_refuses_product,
        candidates=_product_candidates,
        reference=reference.grouped_outer_product,
        sample=reference.sample_groups,
        cost=_product_cost,
        recipe=_outer_product,
    )
)
