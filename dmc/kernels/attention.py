"""Flash attention, forward and backward: composites `attention` and `attention_backward`.

Beyond the composites, all tensors [batch, heads, rows, width] may be strided views whose last dimension is contiguous
(so queries, keys and values side by side, and their gradients, need no copy), and k and v may have fewer heads than q.
`dbias` is not computed: a problem that reads it is refused. Columns that the causal mask hides from a whole tile are
never read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dmc.kernels.dropout import Dropout, Tile, dropout_of, refuses_dropout
from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, TensorType, moved_once
from dmc.kernels.recipe import Buffer, Call, Recipe, operands, results, scratch
from dmc.kernels.references import attention as reference

Strides = tuple[int, ...]
# Rows, columns, warps and stages of a launch.
Sizes = tuple[int, int, int, int]
_MAX_WIDTH = 128
_MIN_BLOCK = 16


@dataclass(frozen=True)
class AttentionShape:
    """The static parameters of the kernels: sizes, layouts of tensors (strides of batch, head, row), scale, mask and
    tiles.

    groups: heads of q that share one of k and v. out_at: of the result; dout_at and others: of gradients, which the
    forward pass lacks. bias_at: of all four dimensions, 0 where it broadcasts. factor: the remaining factor of scores
    for units of log₂ e. stored: the first launch of the backward pass stores the dropout mask for the second.
    precision: of products of f32.
    """

    rows: int
    columns: int
    width: int
    value_width: int
    heads: int
    groups: int
    q_at: Strides
    k_at: Strides
    v_at: Strides
    out_at: Strides
    dout_at: Strides
    dq_at: Strides
    dk_at: Strides
    dv_at: Strides
    biased: bool
    bias_at: Strides
    scale: float
    scale_log2: float
    factor: float
    causal: bool
    dropout: Dropout | None
    stored: bool
    precision: str
    block_rows: int
    block_columns: int
    block_width: int
    block_value: int


@dataclass(frozen=True)
class _Operands:
    """The operands of either composite by name."""

    q: TensorType
    k: TensorType
    v: TensorType
    bias: TensorType | None
    out: TensorType
    gradients: tuple[TensorType, ...] = ()

    @property
    def matrices(self) -> tuple[TensorType, ...]:
        """All tensors with rows of heads: q, k, v, out, dout, dq, dk, dv."""
        return (self.q, self.k, self.v, self.out, *self.gradients)

    @staticmethod
    def of(problem: Problem) -> _Operands:
        if problem.kind == "attention":
            q, k, v, *bias, _, _ = problem.operands
            return _Operands(q, k, v, bias[0] if bias else None, problem.results[0])
        dout, q, k, v, *bias, out, _, _, _ = problem.operands
        return _Operands(q, k, v, bias[0] if bias else None, out, (dout, *problem.results[:3]))


def _refuses(problem: Problem) -> str | None:
    named = _Operands.of(problem)
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
        return "the log-sum-exp, seed or draw is not contiguous"
    return refuses_dropout(problem)


def _shape(problem: Problem, chosen: Candidate) -> AttentionShape:
    named = _Operands.of(problem)
    batch, heads, rows, width = named.q.shape
    columns, value_width = named.k.shape[2], named.v.shape[3]
    scale = problem.number("scale")
    tile = Tile(chosen["rows"], chosen["columns"], chosen.warps)
    dropout = dropout_of(problem, batch * heads * rows, columns, tile)
    return AttentionShape(
        rows=rows,
        columns=columns,
        width=width,
        value_width=value_width,
        heads=heads,
        groups=heads // named.k.shape[1],
        q_at=named.q.steps()[:3],
        k_at=named.k.steps()[:3],
        v_at=named.v.steps()[:3],
        out_at=named.out.steps()[:3],
        dout_at=_gradient(named, 0),
        dq_at=_gradient(named, 1),
        dk_at=_gradient(named, 2),
        dv_at=_gradient(named, 3),
        biased=named.bias is not None,
        bias_at=_broadcast(named.bias) if named.bias else (),
        scale=scale,
        scale_log2=scale * math.log2(math.e),
        factor=1.0 if named.bias else scale * math.log2(math.e),
        causal=bool(problem.get("causal", False)),
        dropout=dropout,
        # Kernels find a byte of a head's mask by a number of 32 bits.
        stored=dropout is not None and dropout.is_aligned and dropout.blocks * rows < 2**31,
        precision="ieee" if named.q.dtype == "f32" else "tf32",
        block_rows=chosen["rows"],
        block_columns=chosen["columns"],
        block_width=_block(width),
        block_value=_block(value_width),
    )


def _gradient(named: _Operands, index: int) -> Strides:
    return named.gradients[index].steps()[:3] if named.gradients else ()


def _block(width: int) -> int:
    return max(_MIN_BLOCK, 1 << (width - 1).bit_length())


def _broadcast(bias: TensorType) -> Strides:
    """Strides of a bias over [batch, heads, rows, columns], 0 where its size is 1."""
    steps = [0 if size == 1 else step for size, step in zip(bias.shape, bias.steps(), strict=True)]
    return (0,) * (4 - len(steps)) + tuple(steps)


def _forward_candidates(problem: Problem) -> tuple[Candidate, ...]:
    named = _Operands.of(problem)
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
    named = _Operands.of(problem)
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
    shape = _shape(problem, chosen)
    count = len(problem.operands)
    pointers = (*operands(0, 1, 2), _bias(problem, 3), *operands(count - 2, count - 1), *results(0, 1))
    programs = _tiles(problem, shape.rows, shape.block_rows)
    return Recipe((Call("attention_forward.forward", programs, pointers, shape, chosen.warps, chosen.stages),))


def _backward(problem: Problem, chosen: Candidate) -> Recipe:
    shape = _shape(problem, chosen)
    turned = _shape(problem, candidate(chosen["k_warps"], rows=chosen["k_rows"], columns=chosen["k_columns"]))
    count = len(problem.operands)
    out, logsumexp, seed, draw = operands(*range(count - 4, count))
    inputs = (*operands(0, 1, 2, 3), _bias(problem, 4))
    delta, mask = scratch(0, 1) if shape.stored else scratch(0, 0)
    dq, dk, dv = results(0, 1, 2)
    of_rows = (*inputs, out, logsumexp, seed, draw, dq, delta, mask)
    of_columns = (*inputs, logsumexp, seed, draw, delta, mask, dk, dv)
    named = _Operands.of(problem)
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
    return operands(index if _Operands.of(problem).bias else 0)[0]


def _tiles(problem: Problem, rows: int, block: int) -> int:
    batch, heads = _Operands.of(problem).q.shape[:2]
    return batch * heads * -(-rows // block)


def _cost(problem: Problem, products: int) -> Cost:
    """`products`: their number, each of size rows × columns × width."""
    named = _Operands.of(problem)
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
