"""Flash attention, forward and backward: composites `attention` and `attention_backward`.

Beyond the composites, all tensors [batch, heads, rows, width] may be strided views whose last dimension is contiguous
(so queries, keys and values side by side, and their gradients, need no copy), and k and v may have fewer heads than q.
`dbias` is not computed: a problem that reads it is refused. Columns that the causal mask hides from a whole tile are
never read. With dropout, a rank's part of the batches and heads knows their places in the whole, and so draws its bits.
"""

from __future__ import annotations

from dataclasses import replace

from dmc.kernels.attention_shape import AttentionShape, Operands, shape_of
from dmc.kernels.dropout import refuses_dropout
from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, TensorType, moved_once
from dmc.kernels.recipe import Buffer, Call, Recipe, operands, results, scratch
from dmc.kernels.references import attention as reference

# Rows, columns, warps and stages of a launch.
Sizes = tuple[int, int, int, int]
_MAX_WIDTH = 128


def _refuses(problem: Problem) -> str | None:
    named = Operands.of(problem)
    tensors = named.matrices
    if any(len(tensor.shape) != 4 for tensor in tensors):
        return "operands are not [batch, heads, rows, width]"
    if any(tensor.steps()[3] != 1 for tensor in tensors):
        return "rows are not contiguous"
    if len({tensor.dtype for tensor in tensors}) > 1 or named.q.dtype not in ("bf16", "f16", "f32"):
        return "operands have different types, or a type without matrix products"
    if max(named.q.shape[3], named.v.shape[3]) > _MAX_WIDTH:
        return f"heads are wider than {_MAX_WIDTH}"
    if named.q.shape[1] % named.k.shape[1] or named.k.shape[1] != named.v.shape[1]:
        return "the number of query heads is not divisible by that of key and value heads"
    if problem.number("scale") <= 0.0:
        return "the scale is not positive"
    if len(problem.results) > 3:
        return "the gradient of the bias is not computed"
    others = (tensor for tensor in (*problem.operands, *problem.results) if tensor not in (*tensors, named.bias))
    if any(tensor.strides for tensor in others):
        return "the log-sum-exp, seed, draw or a place is not contiguous"
    return refuses_dropout(problem)


def _forward_candidates(problem: Problem) -> tuple[Candidate, ...]:
    named = Operands.of(problem)
    if named.q.dtype == "f32":
        return (candidate(rows=64, columns=32, warps=4), candidate(rows=32, columns=32, warps=4))
    if max(named.q.shape[3], named.v.shape[3]) > 64:
        return (
            candidate(rows=128, columns=64, warps=8, stages=3),
            candidate(rows=128, columns=128, warps=8, stages=2),
            candidate(rows=64, columns=64, warps=4, stages=3),
            candidate(rows=128, columns=32, warps=8, stages=4),
        )
    return (
        candidate(rows=64, columns=64, warps=4, stages=3),
        candidate(rows=64, columns=64, warps=4, stages=2),
        candidate(rows=64, columns=128, warps=4, stages=2),
        candidate(rows=64, columns=32, warps=4, stages=4),
        candidate(rows=128, columns=64, warps=8, stages=3),
        candidate(rows=128, columns=32, warps=4, stages=3),
        candidate(rows=128, columns=64, warps=4, stages=2),
        candidate(rows=128, columns=128, warps=8, stages=2),
    )


def _backward_candidates(problem: Problem) -> tuple[Candidate, ...]:
    """The first launch takes tiles of rows × columns; the second, of k and v, its own."""
    named = Operands.of(problem)
    if named.q.dtype == "f32":
        return (_pair((32, 32, 4, 2), (32, 32, 4, 2)), _pair((64, 32, 8, 2), (32, 64, 8, 2)))
    if max(named.q.shape[3], named.v.shape[3]) > 64:
        return (
            _pair((64, 64, 4, 2), (64, 64, 4, 2)),
            _pair((128, 64, 8, 2), (64, 128, 8, 2)),
            _pair((64, 32, 4, 3), (32, 64, 4, 2)),
        )
    if problem.number("p"):
        # With so few registers a thread, three blocks share a multiprocessor.
        return (_pair((64, 64, 4, 3), (64, 64, 4, 3), registers=168), _pair((64, 64, 4, 3), (128, 64, 4, 2)))
    return (
        _pair((64, 64, 4, 3), (128, 64, 4, 2)),
        _pair((64, 64, 4, 3), (64, 64, 4, 3)),
        _pair((64, 64, 4, 3), (32, 64, 4, 3)),
        _pair((64, 32, 4, 3), (128, 64, 8, 2)),
    )


def _pair(first: Sizes, second: Sizes, registers: int = 0) -> Candidate:
    rows, columns, warps, stages = first
    others = dict(zip(("k_rows", "k_columns", "k_warps", "k_stages"), second, strict=True))
    return candidate(warps, stages, rows=rows, columns=columns, **others, registers=registers)


def _forward(problem: Problem, chosen: Candidate) -> Recipe:
    shape = shape_of(problem, chosen)
    pointers = (*operands(0, 1, 2), _bias(problem, 3), *_draws(problem), *results(0, 1))
    programs = _tiles(problem, shape.rows, shape.block_rows)
    return Recipe((Call("attention_forward.forward", programs, pointers, shape, chosen.warps, chosen.stages),))


def _backward(problem: Problem, chosen: Candidate) -> Recipe:
    shape = shape_of(problem, chosen)
    turned = shape_of(problem, candidate(chosen["k_warps"], rows=chosen["k_rows"], columns=chosen["k_columns"]))
    first = 5 if Operands.of(problem).bias else 4
    out, logsumexp = operands(first, first + 1)
    draws = _draws(problem)
    inputs = (*operands(0, 1, 2, 3), _bias(problem, 4))
    delta, mask = scratch(0, 1) if shape.stored else scratch(0, 0)
    dq, dk, dv = results(0, 1, 2)
    of_rows = (*inputs, out, logsumexp, *draws, dq, delta, mask)
    of_columns = (*inputs, logsumexp, *draws, delta, mask, dk, dv)
    named = Operands.of(problem)
    tiles = _tiles(problem, shape.rows, shape.block_rows)
    k_tiles = named.k.shape[0] * named.k.shape[1] * -(-turned.columns // turned.block_columns)
    calls = (
        Call("attention_backward.rows", tiles, of_rows, shape, chosen.warps, chosen.stages),
        Call("attention_backward.columns", k_tiles, of_columns, turned, chosen["k_warps"], chosen["k_stages"]),
    )
    calls = tuple(replace(call, registers=chosen["registers"]) for call in calls)
    return Recipe(calls, (TensorType("f32", named.q.shape[:3]), *_mask(shape, named.q)))


def _mask(shape: AttentionShape, q: TensorType) -> tuple[TensorType, ...]:
    """The packed bits that say what dropout keeps."""
    if shape.dropout is None or not shape.stored:
        return ()
    return (TensorType("i8", (*q.shape[:2], shape.dropout.blocks, shape.rows)),)


def _bias(problem: Problem, index: int) -> Buffer:
    """The bias; without one, any pointer, which is never read."""
    return operands(index if Operands.of(problem).bias else 0)[0]


def _draws(problem: Problem) -> tuple[Buffer, ...]:
    """Seed, draw, and which batches and heads of the whole these are; if all, any pointers, which are never read."""
    given, places = problem.apart(operands(*range(len(problem.operands))))
    return (*given[-2:], *(places or operands(0, 0)))


def _tiles(problem: Problem, rows: int, block: int) -> int:
    batch, heads = Operands.of(problem).q.shape[:2]
    return batch * heads * -(-rows // block)


def _cost(problem: Problem, products: int) -> Cost:
    """`products`: their number, each of size rows × columns × width."""
    named = Operands.of(problem)
    batch, heads, rows, width = named.q.shape
    columns = named.k.shape[2]
    pairs = rows * columns
    if problem.get("causal", False):
        pairs = sum(min(row + 1, columns) for row in range(rows))
    return Cost(2 * products * batch * heads * pairs * width, moved_once(problem))


register(
    Implementation(
        name="flash_attention",
        kind="attention",
        refuses=_refuses,
        candidates=_forward_candidates,
        reference=reference.attention,
        sample=reference.sample,
        cost=lambda problem: _cost(problem, 2),
        recipe=_forward,
    )
)
register(
    Implementation(
        name="flash_attention_backward",
        kind="attention_backward",
        refuses=_refuses,
        candidates=_backward_candidates,
        reference=reference.attention_backward,
        sample=reference.sample_backward,
        cost=lambda problem: _cost(problem, 5),
        recipe=_backward,
    )
)
