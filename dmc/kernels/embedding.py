"""The gradient of an embedding: composite `embedding_backward`, deterministic and without atomics."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.dtypes import FACTORS
from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, TensorType, moved_once
from dmc.kernels.recipe import Call, Recipe, operands, results, scratch
from dmc.kernels.references import embedding as reference
from dmc.kernels.sums import sum_of_rows

# Ranking bisects every run of sorted occurrences for each.
_RUN = 512
_MAX_OCCURRENCES = 1 << 18
_MAX_WIDTH = 16384
_BLOCK_BOUNDS = 256
# At least this many programs keep the device busy, even if few rows have many occurrences each.
_PROGRAMS = 2048


@dataclass(frozen=True)
class EmbeddingShape:
    """The static parameters. parts: programs that share the occurrences of one row; bisections: enough to find any
    place.

    run: occurrences that are sorted together; run_count: of them. shares: programs that rank one occurrence, among
    `share` runs each. wide: the keys by which occurrences are sorted need 64 bits.
    """

    occurrences: int
    rows: int
    width: int
    padding_index: int
    parts: int
    bisections: int
    run: int
    run_count: int
    shares: int
    share: int
    wide: bool
    is_part: bool
    block_rank: int
    block_scan: int
    block_bounds: int
    block_gather: int
    block_width: int


def _refuses(problem: Problem) -> str | None:
    dy, index = problem.operands[:2]
    if any(tensor.strides for tensor in (*problem.operands, *problem.results)) or index.dtype != "i64":
        return "a tensor is not contiguous, or the index does not have 64 bits"
    if dy.dtype not in FACTORS:
        return f"elements of type {dy.dtype} are not accumulated in f32"
    if not 0 < index.elements <= _MAX_OCCURRENCES:
        return f"no occurrence, or more than {_MAX_OCCURRENCES}"
    return f"rows are wider than {_MAX_WIDTH}" if problem.results[0].shape[1] > _MAX_WIDTH else None


def _shape(problem: Problem, chosen: Candidate) -> EmbeddingShape:
    rows, width = problem.results[0].shape
    occurrences = problem.operands[1].elements
    run_count = -(-occurrences // _RUN)
    share = -(-run_count // chosen["shares"])
    return EmbeddingShape(
        occurrences=occurrences,
        rows=rows,
        width=width,
        padding_index=int(problem.get("padding_index", -1)),
        parts=max(1, min(_PROGRAMS // rows, -(-occurrences // (rows * chosen["gather"])))),
        bisections=occurrences.bit_length(),
        run=_RUN,
        run_count=run_count,
        shares=-(-run_count // share),
        share=share,
        # Beyond the last occurrence keys are larger than all others.
        wide=(rows + 2) * (occurrences + _RUN) >= 2**31,
        is_part=len(problem.operands) > 2,
        block_rank=chosen["rank"],
        block_scan=chosen["scan"],
        block_bounds=_BLOCK_BOUNDS,
        block_gather=chosen["gather"],
        block_width=max(16, 1 << (width - 1).bit_length()),
    )


def _candidates(problem: Problem) -> tuple[Candidate, ...]:
    return (
        candidate(shares=8, rank=64, scan=128, gather=4, warps=4),
        candidate(shares=8, rank=128, scan=64, gather=2, warps=4),
        candidate(shares=8, rank=64, scan=128, gather=16, warps=8),
    )


def _recipe(problem: Problem, chosen: Candidate) -> Recipe:
    shape = _shape(problem, chosen)
    dy, index = operands(0, 1)
    # A rank's part of the table has the indices of its rows as an operand.
    first = operands(2)[0] if shape.is_part else index
    *sorted_, starts, runs, counts, parts = scratch(0, 1, 2, 3, 4, 5)
    order, sorted_rows = sorted_
    (out,) = results(0)
    direct = shape.parts == 1
    blocks = -(-shape.occurrences // shape.block_rank)
    calls = [
        Call("embedding.sort", shape.run_count * _RUN // shape.block_rank, (index, first, runs), shape, chosen.warps),
        Call("embedding.count", blocks * shape.shares, (index, first, runs, counts), shape, chosen.warps),
        Call("embedding.put", -(-shape.occurrences // _BLOCK_BOUNDS), (index, first, counts, *sorted_), shape),
        Call("embedding.bounds", -(-(shape.rows + 1) // _BLOCK_BOUNDS), (sorted_rows, starts), shape),
        Call(
            "embedding.gather",
            shape.rows * shape.parts,
            (dy, order, starts, out if direct else parts),
            shape,
            chosen.warps,
        ),
    ]
    integers = [TensorType("i32", (size,)) for size in (shape.occurrences, shape.occurrences, shape.rows + 1)]
    integers.append(TensorType("i64" if shape.wide else "i32", (shape.run_count * _RUN,)))
    integers.append(TensorType("i32", (shape.shares, shape.occurrences)))
    if direct:
        return Recipe(tuple(calls), tuple(integers))
    elements = shape.rows * shape.width
    calls.append(sum_of_rows(parts, out, shape.parts, elements))
    return Recipe(tuple(calls), (*integers, TensorType("f32", (shape.parts, elements))))


def _cost(problem: Problem) -> Cost:
    return Cost(problem.operands[0].elements, moved_once(problem))


register(
    Implementation(
        name="sorted_embedding_backward",
        kind="embedding_backward",
        refuses=_refuses,
        candidates=_candidates,
        reference=reference.embedding_backward,
        sample=reference.sample,
        cost=_cost,
        recipe=_recipe,
    )
)
