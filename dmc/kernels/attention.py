"""Flash attention, forward and backward: composites `attention` and `attention_backward`.

Beyond the composites, all tensors [batch, heads, rows, width] may be strided views whose last dimension is contiguous
(so queries, keys and values side by side, and their gradients, need no copy), and k and v may have fewer heads than q.
`dbias` is not computed: a problem that reads it is refused. Where the gradients of q, k and v lie side by side in a
matrix, the sums over its rows may be a last result, f32, as gradients of biases (`sums_0` to `sums_2`: the first
columns of each). Columns that the causal mask hides from a whole tile are never read. With dropout, a rank's part of
the batches and heads knows their places in the whole, and so draws its bits.
"""

from __future__ import annotations

from dmc.dtypes import FACTORS
from dmc.kernels import attention_launches as launches
from dmc.kernels.attention_shape import Operands, is_summed
from dmc.kernels.dropout import refuses_dropout
from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, moved_once
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
    if len({tensor.dtype for tensor in tensors}) > 1 or named.q.dtype not in FACTORS:
        return "operands have different types, or a type without matrix products"
    if named.width > _MAX_WIDTH:
        return f"heads are wider than {_MAX_WIDTH}"
    if named.q.shape[1] % named.k.shape[1] or named.k.shape[1] != named.v.shape[1]:
        return "the number of query heads is not divisible by that of key and value heads"
    if problem.number("scale") <= 0.0:
        return "the scale is not positive"
    if is_summed(problem) and not _are_side_by_side(problem):
        return "sums of gradients that do not make up a matrix"
    if len(problem.results) > 3 + is_summed(problem):
        return "the gradient of the bias is not computed"
    others = (tensor for tensor in (*problem.operands, *problem.results) if tensor not in (*tensors, named.bias))
    if any(tensor.strides for tensor in others):
        return "the log-sum-exp, seed, draw or a place is not contiguous"
    return refuses_dropout(problem)


def _are_side_by_side(problem: Problem) -> bool:
    """Whether the gradients are columns of one matrix, with a row for each row of each batch."""
    *gradients, sums = problem.results
    count, width = gradients[0].shape[2], sums.elements
    columns = sum(each.shape[1] * each.shape[3] for each in gradients)
    steps = [each.steps() for each in gradients]
    are_rows = all((step[0], step[2]) == (count * width, width) for step in steps)
    return are_rows and columns == width and all(each.shape[2] == count for each in gradients)


def _forward_candidates(problem: Problem) -> tuple[Candidate, ...]:
    named = Operands.of(problem)
    if named.q.dtype == "f32":
        # Of tiles of 64 columns, threads draw what they need and no more.
        whole = (candidate(rows=32, columns=64, warps=4),) if problem.number("p") else ()
        return (*whole, candidate(rows=64, columns=32, warps=4), candidate(rows=32, columns=32, warps=4))
    if named.width > 64:
        ahead = tuple(
            candidate(rows=64, columns=64, warps=4, ahead=1, stages=stages)
            for stages in (3, 2)
            if launches.is_copied_ahead(problem)
        )
        return (
            *ahead,
            candidate(rows=128, columns=64, warps=8, stages=3),
            candidate(rows=128, columns=128, warps=8, stages=2),
            candidate(rows=64, columns=64, warps=4, stages=3),
            candidate(rows=128, columns=32, warps=8, stages=4),
        )
    ahead = (candidate(rows=64, columns=64, ahead=1, stages=2),) if launches.is_copied_ahead(problem) else ()
    return (
        *ahead,
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
    """Of those for sums over rows, both launches add up tiles of as many rows."""
    found = _backward_pairs(problem)
    return tuple(each for each in found if not is_summed(problem) or each["rows"] == each["k_columns"])


def _backward_pairs(problem: Problem) -> tuple[Candidate, ...]:
    """The first launch takes tiles of rows × columns; the second, of k and v, its own."""
    named = Operands.of(problem)
    if named.q.dtype == "f32":
        whole = (_pair((32, 64, 4, 2), (32, 64, 4, 2)),) if problem.number("p") else ()
        return (*whole, _pair((32, 32, 4, 2), (32, 32, 4, 2)), _pair((64, 32, 8, 2), (32, 64, 8, 2)))
    if named.width > 64:
        ahead = (_pair((64, 64, 4, 2), (64, 64, 4, 2), ahead=1),)
        return (
            *(ahead if launches.is_copied_ahead(problem) else ()),
            _pair((64, 64, 4, 2), (64, 64, 4, 2)),
            _pair((128, 64, 8, 2), (64, 128, 8, 2)),
            _pair((64, 32, 4, 3), (32, 64, 4, 2)),
        )
    # With so few registers a thread, three blocks share a multiprocessor.
    few = 168
    ahead = tuple(
        _pair((64, 64, 4, n), (64, 64, 4, n), few, ahead=1) for n in (2, 3) if launches.is_copied_ahead(problem)
    )
    if problem.number("p"):
        return (*ahead, _pair((64, 64, 4, 3), (64, 64, 4, 3), few), _pair((64, 64, 4, 3), (128, 64, 4, 2)))
    return (
        *ahead,
        _pair((64, 64, 4, 3), (128, 64, 4, 2)),
        _pair((64, 64, 4, 3), (64, 64, 4, 3)),
        _pair((64, 64, 4, 3), (32, 64, 4, 3)),
        _pair((64, 32, 4, 3), (128, 64, 8, 2)),
    )


def _pair(first: Sizes, second: Sizes, registers: int = 0, **others: int) -> Candidate:
    rows, columns, warps, stages = first
    of_columns = dict(zip(("k_rows", "k_columns", "k_warps", "k_stages"), second, strict=True))
    return candidate(warps, stages, rows=rows, columns=columns, **of_columns, registers=registers, **others)


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
        recipe=launches.forward,
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
        recipe=launches.backward,
    )
)
