"""The launches of attention: over tiles that threads load, in Triton, or that TMA copies ahead, in Gluon.

Both leave the same in scratch memory between the launches of the backward pass, since either may take the other's place
where a buffer is not aligned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dmc.kernels.attention_shape import TILE, AttentionShape, Operands, shape_of
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.problem import Problem, TensorType
from dmc.kernels.recipe import Buffer, Call, Recipe, View, operands, results, scratch
from dmc.kernels.sums import sum_of_rows
from dmc.program.sizes import element_bytes

_TOO_NARROW, _WIDEST = 32, 128
# Of strides, in bytes.
_ALIGNMENT = 16
Views = tuple[View | None, ...]


def is_copied_ahead(problem: Problem) -> bool:
    """Whether the kernels in Gluon support a problem: 16 bits, heads of 33 to 128, rows that TMA can copy."""
    named = Operands.of(problem)
    if element_bytes(named.q.dtype) != 2 or not _TOO_NARROW < named.width <= _WIDEST:
        return False
    steps = [step for each in named.matrices for step in each.steps()[:3]]
    if any(step <= 0 or step * element_bytes(named.q.dtype) % _ALIGNMENT for step in steps):
        return False
    shape = shape_of(problem, candidate(rows=TILE, columns=TILE))
    return shape.dropout is None or shape.stored


def forward(problem: Problem, chosen: Candidate) -> Recipe:
    """The launch of `attention`: a program for each tile of rows of each head, of the candidate's size."""
    shape, named, draws = shape_of(problem, chosen), Operands.of(problem), _draws(problem)
    matrices, made = operands(0, 1, 2), results(0, 1)
    programs = _rows(named, shape.rows, shape.block_rows)
    buffers = (*matrices, _bias(problem, 3), *draws, *made)
    plain = Call("attention_forward.forward", programs, buffers, shape, chosen.warps, chosen.stages)
    if not chosen.get("ahead", 0):
        return Recipe((plain,))
    q, k, v, out = _views(named, named.q, named.k, named.v, named.out)
    views: Views = (q, k, v, None, *_pointers(draws), out, None)
    return Recipe((Call("ahead_forward.forward", programs, buffers, shape, views=views, plain=plain),))


def backward(problem: Problem, chosen: Candidate) -> Recipe:
    """The launches of `attention_backward`: for the gradient of q, by tiles of rows, then those of k and v, by tiles of
    columns (Dao et al., 2022, algorithm 4). Scratch: two f32 of each row, with dropout a bit of each probability, and
    where sums over rows are asked for those of each tile, which a third launch adds up.
    """
    shape, named = shape_of(problem, chosen), Operands.of(problem)
    tiles = {"rows": chosen["k_rows"], "columns": chosen["k_columns"], "k_columns": chosen["columns"]}
    turned = shape_of(problem, candidate(chosen["k_warps"], **tiles))
    first = 5 if named.bias else 4
    inputs = (*operands(0, 1, 2, 3), _bias(problem, 4))
    numbers, mask, parts = scratch(0, 1 if shape.stored else 0, 1 + shape.stored if shape.sums else 0)
    dq, dk, dv = results(0, 1, 2)
    rows = Call(
        "attention_backward.rows",
        _rows(named, shape.rows, shape.block_rows),
        (*inputs, *operands(first, first + 1), *_draws(problem), dq, numbers, mask, parts),
        shape,
        chosen.warps,
        chosen.stages,
    )
    columns = Call(
        "attention_backward.columns",
        named.k.shape[0] * named.k.shape[1] * -(-turned.columns // turned.block_columns),
        (*inputs, *_draws(problem), numbers, mask, dk, dv, parts),
        turned,
        chosen["k_warps"],
        chosen["k_stages"],
    )
    calls = (rows, columns)
    if chosen.get("ahead", 0):
        calls = _rows_ahead(problem, rows), _columns_ahead(problem, columns, chosen.stages)
    limited = tuple(replace(call, registers=chosen["registers"]) for call in calls)
    pairs = TensorType("f32", (*named.q.shape[:2], shape.numbered // TILE, 2, TILE))
    kept = (pairs, *_mask(shape, named.q))
    if shape.sums is None:
        return Recipe(limited, kept)
    tiles = named.q.shape[0] * -(-shape.rows // shape.block_rows)
    total = sum_of_rows(parts, results(3)[0], tiles, shape.sums.width)
    return Recipe((*limited, total), (*kept, TensorType("f32", (tiles, shape.sums.width))))


def _rows_ahead(problem: Problem, plain: Call) -> Call:
    named = Operands.of(problem)
    dout, dq, q, k, v, out = _views(named, *named.gradients[:2], named.q, named.k, named.v, named.out)
    views = (dout, q, k, v, None, out, None, *_pointers(_draws(problem)), dq, None, None, None)
    return replace(plain, function="ahead_rows.rows", views=views, plain=plain)


def _columns_ahead(problem: Problem, plain: Call, stages: int) -> Call:
    """Draws are not read: which elements are kept is stored."""
    named, draws = Operands.of(problem), len(_draws(problem))
    dout, _, dk, dv, q, k, v = _views(named, *named.gradients, named.q, named.k, named.v)
    tiles = _rows(named, plain.shape.rows, TILE)
    pairs = View((tiles, 2 * TILE), (2 * TILE, 1), (1, 2 * TILE))
    return replace(
        plain,
        function="ahead_columns.columns",
        buffers=(*plain.buffers[:5], *plain.buffers[5 + draws :]),
        shape=replace(plain.shape, stages=stages),
        views=(dout, q, k, v, None, pairs, None, dk, dv, None),
        plain=plain,
    )


def _views(named: Operands, *tensors: TensorType) -> Iterator[View]:
    """Tensors as arrays of tiles of a head, all of one width."""
    tile = (1, 1, TILE, TILE if named.width <= TILE else _WIDEST)
    return (View(each.shape, each.steps(), tile) for each in tensors)


def _pointers(buffers: tuple[Buffer, ...]) -> tuple[None, ...]:
    return (None,) * len(buffers)


def _mask(shape: AttentionShape, q: TensorType) -> tuple[TensorType, ...]:
    """The packed bits that say what dropout keeps."""
    if shape.dropout is None or not shape.stored:
        return ()
    return (TensorType(f"i{shape.dropout.lanes}", (*q.shape[:2], shape.dropout.blocks, shape.rows)),)


def _bias(problem: Problem, index: int) -> Buffer:
    """The bias; without one, any pointer, which is never read."""
    return operands(index if Operands.of(problem).bias else 0)[0]


def _draws(problem: Problem) -> tuple[Buffer, ...]:
    """Seed, draw, and which batches and heads of the whole these are; if all, any pointers, which are never read."""
    given, places = problem.apart(operands(*range(len(problem.operands))))
    return (*given[-2:], *(places or operands(0, 0)))


def _rows(named: Operands, rows: int, block: int) -> int:
    """How many tiles of rows all heads have."""
    batch, heads = named.q.shape[:2]
    return batch * heads * -(-rows // block)
