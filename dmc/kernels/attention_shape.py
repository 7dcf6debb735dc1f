"""What the kernels of attention know of a problem: its operands by name, and their static parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dmc.kernels.dropout import Dropout, Tile, dropout_of
from dmc.kernels.implementation import Candidate
from dmc.kernels.problem import Problem, TensorType

Strides = tuple[int, ...]
_MIN_BLOCK = 16
# Rows and columns of a tile that is copied ahead, elements of its rows, and rows that are numbered together.
TILE = 64


@dataclass(frozen=True)
class Sums:
    """The sums over all rows of the matrix `width` wide that dq, dk and dv make up: the first column of each."""

    width: int
    dq: int
    dk: int
    dv: int


@dataclass(frozen=True)
class AttentionShape:
    """The static parameters of the kernels: sizes, layouts of tensors (strides of batch, head, row), scale, mask and
    tiles, of which `stages` are copied ahead.

    groups: heads of q that share one of k and v. whole_heads: heads of a batch of the whole of which this is a part; 0
    if it is the whole. out_at: of the result; dout_at and others: of gradients, which the forward pass lacks. bias_at:
    of all four dimensions, 0 where it broadcasts. factor: the remaining factor of scores for units of log₂ e. stored:
    the first launch of the backward pass stores the dropout mask for the second. sums: where the sums over its rows
    are, if they are asked for. precision: of products of f32.
    """

    rows: int
    columns: int
    width: int
    value_width: int
    heads: int
    groups: int
    whole_heads: int
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
    sums: Sums | None
    precision: str
    block_rows: int
    block_columns: int
    block_width: int
    block_value: int
    stages: int

    @property
    def numbered(self) -> int:
        """The rows of a head, in whole tiles: for so many the backward pass keeps numbers."""
        return -(-self.rows // TILE) * TILE


@dataclass(frozen=True)
class Operands:
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

    @property
    def width(self) -> int:
        """Elements of the widest rows."""
        return max(self.q.shape[3], self.v.shape[3])

    @staticmethod
    def of(problem: Problem) -> Operands:
        given, _ = problem.apart(problem.operands)
        if problem.kind == "attention":
            q, k, v, *bias, _, _ = given
            return Operands(q, k, v, bias[0] if bias else None, problem.results[0])
        dout, q, k, v, *bias, out, _, _, _ = given
        return Operands(q, k, v, bias[0] if bias else None, out, (dout, *problem.results[:3]))


def shape_of(problem: Problem, chosen: Candidate) -> AttentionShape:
    """The static parameters of a problem's kernels, with the tiles of a candidate: rows × columns, and in the other
    launch of a backward pass `k_columns`.
    """
    named = Operands.of(problem)
    batch, heads, rows, width = named.q.shape
    columns, value_width, scale = named.k.shape[2], named.v.shape[3], problem.number("scale")
    tile = Tile(chosen["rows"], chosen["columns"], chosen.warps)
    whole_heads = int(problem.number("whole_1"))
    drawn = int(problem.number("whole_0")) * whole_heads or batch * heads
    dropout = dropout_of(problem, drawn * rows, columns, tile)
    return AttentionShape(
        rows=rows,
        columns=columns,
        width=width,
        value_width=value_width,
        heads=heads,
        groups=heads // named.k.shape[1],
        whole_heads=whole_heads,
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
        stored=dropout is not None and _is_stored(dropout, rows, chosen.get("k_columns", tile.columns)),
        sums=_sums(problem),
        precision="ieee" if named.q.dtype == "f32" else "tf32",
        block_rows=chosen["rows"],
        block_columns=chosen["columns"],
        block_width=_block(width),
        block_value=_block(value_width),
        stages=chosen.stages,
    )


def is_summed(problem: Problem) -> bool:
    """Whether the last result is the sums over all rows of the others."""
    return problem.get("sums_0", -1) != -1


def _sums(problem: Problem) -> Sums | None:
    if not is_summed(problem):
        return None
    firsts = (int(problem.number(f"sums_{i}")) for i in range(3))
    return Sums(problem.results[-1].shape[0], *firsts)


def _is_stored(dropout: Dropout, rows: int, other_columns: int) -> bool:
    """Whether the tiles of both launches begin with whole blocks, which they find by a number of 32 bits."""
    both = (dropout.tile, replace(dropout.tile, columns=other_columns))
    return all(replace(dropout, tile=tile).is_aligned for tile in both) and dropout.blocks * rows < 2**31


def _gradient(named: Operands, index: int) -> Strides:
    return named.gradients[index].steps()[:3] if named.gradients else ()


def _block(width: int) -> int:
    return max(_MIN_BLOCK, 1 << (width - 1).bit_length())


def _broadcast(bias: TensorType) -> Strides:
    """Strides of a bias over [batch, heads, rows, columns], 0 where its size is 1."""
    steps = [0 if size == 1 else step for size, step in zip(bias.shape, bias.steps(), strict=True)]
    return (0,) * (4 - len(steps)) + tuple(steps)
