"""Layer and RMS normalisation: composites `layer_norm`, `rms_norm` and their backward passes.

`add_layer_norm` and `add_rms_norm` include the surrounding operations of transformers, in one pass over memory:
(x, residual, weight, [bias], seed, draw) -> (total, y, [mean], rstd) with total = residual + dropout(x, p), and
(dy, dtotal, total, weight, [mean], rstd, seed, draw) -> (dx, dresidual, dweight, [dbias]) for the backward pass.
`y` may have another type than the normalised value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dmc.kernels.dropout import Dropout, Tile, dropout_of, refuses_dropout
from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, TensorType, moved_once
from dmc.kernels.recipe import Buffer, Call, Recipe, operands, results, scratch
from dmc.kernels.references import normalisation as reference
from dmc.kernels.sums import sum_of_rows

_MAX_WIDTH = 16384


@dataclass(frozen=True)
class NormShape:
    """The static parameters. centred: the mean is subtracted and a bias added. Sizes are of the matrix [rows, width].

    stages: of the pipeline that loads rows ahead; rows_of_program: rows per program of the backward pass.
    """

    rows: int
    width: int
    centred: bool
    residual: bool
    eps: float
    dropout: Dropout | None
    block_rows: int
    block_width: int
    rows_of_program: int
    stages: int


def _is_centred(problem: Problem) -> bool:
    return "layer_norm" in problem.kind


def _is_added(problem: Problem) -> bool:
    return problem.kind.startswith("add_")


def _is_backward(problem: Problem) -> bool:
    return problem.kind.endswith("_backward")


def _matrix(problem: Problem) -> tuple[int, int]:
    """Rows and width of the normalised matrix."""
    shape = problem.operands[0].shape
    axes = int(problem.number("axes", 1))
    return math.prod(shape[: len(shape) - axes]), math.prod(shape[len(shape) - axes :])


def _refuses(problem: Problem) -> str | None:
    rows, width = _matrix(problem)
    if not rows or not 0 < width <= _MAX_WIDTH:
        return f"rows are empty, or wider than {_MAX_WIDTH}"
    if any(tensor.strides for tensor in (*problem.operands, *problem.results)):
        return "a tensor is not contiguous"
    return refuses_dropout(problem)


def _shape(problem: Problem, chosen: Candidate) -> NormShape:
    rows, width = _matrix(problem)
    per_program = -(-rows // (chosen["programs"] * chosen["rows"])) * chosen["rows"] if _is_backward(problem) else 0
    block_width = max(16, 1 << (width - 1).bit_length())
    return NormShape(
        rows=rows,
        width=width,
        centred=_is_centred(problem),
        residual=_is_added(problem),
        eps=problem.number("eps"),
        dropout=dropout_of(problem, rows, width, Tile(chosen["rows"], block_width, chosen.warps)),
        block_rows=chosen["rows"],
        block_width=block_width,
        rows_of_program=per_program,
        stages=chosen.stages,
    )


def _forward_candidates(problem: Problem) -> tuple[Candidate, ...]:
    if _matrix(problem)[1] > 2048:
        return (candidate(rows=1, warps=8), candidate(rows=1, warps=16), candidate(rows=1, warps=4))
    return (
        candidate(rows=1, warps=4),
        candidate(rows=1, warps=2),
        candidate(rows=2, warps=4),
        candidate(rows=4, warps=4),
        candidate(rows=4, warps=8),
    )


def _backward_candidates(problem: Problem) -> tuple[Candidate, ...]:
    if _matrix(problem)[1] > 2048:
        return (
            candidate(rows=1, programs=264, warps=8, stages=2),
            candidate(rows=1, programs=132, warps=16, stages=2),
            candidate(rows=1, programs=264, warps=16, stages=1),
        )
    return (
        candidate(rows=1, programs=528, warps=4, stages=2),
        candidate(rows=1, programs=1056, warps=4, stages=1),
        candidate(rows=4, programs=264, warps=8, stages=2),
        candidate(rows=4, programs=528, warps=4, stages=1),
        candidate(rows=1, programs=1056, warps=2, stages=3),
    )


def _forward(problem: Problem, chosen: Candidate) -> Recipe:
    shape = _shape(problem, chosen)
    x = operands(0)[0]
    residual, weight = operands(1, 2) if shape.residual else operands(0, 1)
    rest = list(operands(*range(weight.index + 1, len(problem.operands))))
    bias = rest.pop(0) if shape.centred else x
    seed, draw = rest or (x, x)
    left = list(results(*range(len(problem.results))))
    total = left.pop(0) if shape.residual else x
    y = left.pop(0)
    mean = left.pop(0) if shape.centred else y
    buffers = (x, residual, weight, bias, seed, draw, total, y, mean, left[0])
    call = Call("normalisation.forward", -(-shape.rows // shape.block_rows), buffers, shape, chosen.warps, 1)
    return Recipe((call,))


def _backward(problem: Problem, chosen: Candidate) -> Recipe:
    shape = _shape(problem, chosen)
    given = list(operands(*range(len(problem.operands))))
    dy = given.pop(0)
    dtotal = given.pop(0) if shape.residual else dy
    x, weight = given.pop(0), given.pop(0)
    mean = given.pop(0) if shape.centred else dy
    rstd = given.pop(0)
    seed, draw = given or (dy, dy)
    dx, *left = results(*range(len(problem.results)))
    dresidual = left.pop(0) if shape.residual else dx
    programs = -(-shape.rows // shape.rows_of_program)
    parts = scratch(*range(len(left)))
    buffers = (dy, dtotal, x, weight, mean, rstd, seed, draw, dresidual, dx, parts[0], parts[-1])
    call = Call("normalisation.backward", programs, buffers, shape, chosen.warps, chosen.stages)
    sums = _sums(parts, tuple(left), programs, shape.width)
    return Recipe((call, *sums), tuple(TensorType("f32", (programs, shape.width)) for _ in parts))


def _sums(parts: tuple[Buffer, ...], out: tuple[Buffer, ...], rows: int, width: int) -> tuple[Call, ...]:
    return tuple(sum_of_rows(part, result, rows, width) for part, result in zip(parts, out, strict=True))


def _cost(problem: Problem) -> Cost:
    rows, width = _matrix(problem)
    return Cost((14 if _is_backward(problem) else 8) * rows * width, moved_once(problem))


for _kind in ("layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm"):
    register(
        Implementation(
            name=f"row_{_kind}",
            kind=_kind,
            refuses=_refuses,
            candidates=_forward_candidates,
            reference=reference.FORWARD[_kind],
            sample=reference.sample,
            cost=_cost,
            recipe=_forward,
        )
    )
    register(
        Implementation(
            name=f"row_{_kind}_backward",
            kind=f"{_kind}_backward",
            refuses=_refuses,
            candidates=_backward_candidates,
            reference=reference.BACKWARD[_kind],
            sample=reference.sample_backward,
            cost=_cost,
            recipe=_backward,
        )
    )
