"""Softmax cross entropy over logits: composites `softmax_cross_entropy` and its backward pass.

`softmax_cross_entropy_both` computes both, for a loss whose own gradient is known in advance:
(dloss, logits, target) -> (loss, logsumexp, gradient), which reads the logits once. The gradient may replace the
logits in place. Rows of logits and of the gradient may be padded (by their strides); padding is not touched. If the
gradient has more columns than the logits, the others become zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmc.composites import LOSS, LOSS_AND_GRADIENT, LOSS_GRADIENT
from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, TensorType, moved_once
from dmc.kernels.recipe import Call, Recipe, operands, results, scratch
from dmc.kernels.references import cross_entropy as reference

_SUM_BLOCK = 4096
# Of an access, and of threads.
_VECTOR, _WARP = 8, 32
# At most this many columns after the classes fit into the last block.
_MOST_PADDING = 4096


@dataclass(frozen=True)
class CrossEntropyShape:
    """The static parameters. block: classes loaded at once; stages: blocks loaded ahead.

    width: the columns of the gradient; those after the classes become zero. whole: the classes in whole blocks; the
    other columns are one block of `tail_block`. vectors: the classes in whole vectors of 8. lanes: maxima and sums that
    threads have apart, each of `tail_depth` columns of the last block. kept: the cache is hinted to keep the logits
    until they are read again.
    """

    rows: int
    classes: int
    width: int
    logits_stride: int
    gradient_stride: int
    ignore_index: int
    smoothing: float
    block: int
    whole: int
    tail_block: int
    vectors: int
    lanes: int
    tail_depth: int
    stages: int
    kept: bool
    sum_block: int


def _logits(problem: Problem) -> TensorType:
    return problem.operands[0 if problem.kind == LOSS else 1]


def _gradient(problem: Problem) -> TensorType:
    return problem.results[-1] if problem.kind in (LOSS_AND_GRADIENT, LOSS_GRADIENT) else _logits(problem)


def _refuses(problem: Problem) -> str | None:
    for tensor in (_logits(problem), _gradient(problem)):
        if tensor.steps()[1] != 1:
            return "rows are not contiguous"
    others = (tensor for tensor in (*problem.operands, *problem.results) if len(tensor.shape) < 2)
    if any(tensor.strides for tensor in others):
        return "an operand or result with one element per row is not contiguous"
    (rows, classes), (gradient_rows, width) = _logits(problem).shape, _gradient(problem).shape
    if rows != gradient_rows or not 0 <= width - classes < _MOST_PADDING:
        return "the gradient has a different shape from the logits"
    return None if min(rows, classes) > 0 else "there are no logits"


def _shape(problem: Problem, chosen: Candidate) -> CrossEntropyShape:
    rows, classes = _logits(problem).shape
    width = _gradient(problem).shape[1]
    whole = classes // chosen["block"] * chosen["block"]
    tail_block = max(16, 1 << max(0, width - whole - 1).bit_length())
    lanes = min(_VECTOR * _WARP * chosen.warps, chosen["block"] if whole else tail_block)
    return CrossEntropyShape(
        rows=rows,
        classes=classes,
        width=width,
        logits_stride=_logits(problem).steps()[0],
        gradient_stride=_gradient(problem).steps()[0],
        ignore_index=int(problem.get("ignore_index", -100)),
        smoothing=problem.number("label_smoothing"),
        block=chosen["block"],
        whole=whole,
        tail_block=tail_block,
        vectors=classes // _VECTOR * _VECTOR,
        lanes=lanes,
        tail_depth=max(1, tail_block // lanes),
        stages=chosen.stages,
        kept=problem.kind == LOSS_AND_GRADIENT,
        sum_block=_SUM_BLOCK,
    )


def _candidates(problem: Problem) -> tuple[Candidate, ...]:
    if problem.kind == LOSS_AND_GRADIENT:
        return (
            candidate(block=16384, warps=16, stages=1),
            candidate(block=8192, warps=8, stages=1),
            candidate(block=8192, warps=16, stages=1),
            candidate(block=16384, warps=8, stages=1),
        )
    return (
        candidate(block=4096, warps=4, stages=2),
        candidate(block=16384, warps=16, stages=1),
        candidate(block=4096, warps=8, stages=3),
    )


def _in_place(problem: Problem) -> tuple[tuple[int, int], ...]:
    """The gradient may replace the logits where each element has the place of its logit."""
    logits, gradient = _logits(problem), _gradient(problem)
    are_alike = logits.dtype == gradient.dtype and logits.steps() == gradient.steps()
    return ((len(problem.results) - 1, 1),) if are_alike else ()


def _forward(problem: Problem, chosen: Candidate) -> Recipe:
    shape = _shape(problem, chosen)
    logits, target = operands(0, 1)
    loss, logsumexp = results(0, 1)
    (losses,) = scratch(0)
    calls = (
        Call("cross_entropy.forward", shape.rows, (logits, target, logsumexp, losses), shape, chosen.warps),
        Call("cross_entropy.total", 1, (losses, loss), shape, warps=8),
    )
    return Recipe(calls, (TensorType("f32", (shape.rows,)),))


def _backward(problem: Problem, chosen: Candidate) -> Recipe:
    shape = _shape(problem, chosen)
    buffers = (*operands(0, 1, 2, 3), *results(0))
    call = Call("cross_entropy.backward", shape.rows, buffers, shape, chosen.warps)
    return Recipe((call,), in_place=_in_place(problem))


def _both(problem: Problem, chosen: Candidate) -> Recipe:
    shape = _shape(problem, chosen)
    dloss, logits, target = operands(0, 1, 2)
    loss, logsumexp, gradient = results(0, 1, 2)
    (losses,) = scratch(0)
    rows = (dloss, logits, target, logsumexp, losses, gradient)
    calls = (
        Call("cross_entropy.both", shape.rows, rows, shape, chosen.warps),
        Call("cross_entropy.total", 1, (losses, loss), shape, warps=8),
    )
    return Recipe(calls, (TensorType("f32", (shape.rows,)),), in_place=_in_place(problem))


def _cost(problem: Problem) -> Cost:
    return Cost(8 * _logits(problem).elements, moved_once(problem))


register(
    Implementation(
        name="row_cross_entropy",
        kind=LOSS,
        refuses=_refuses,
        candidates=_candidates,
        reference=reference.forward,
        sample=reference.sample,
        cost=_cost,
        recipe=_forward,
    )
)
register(
    Implementation(
        name="row_cross_entropy_backward",
        kind=LOSS_GRADIENT,
        refuses=_refuses,
        candidates=_candidates,
        reference=reference.backward,
        sample=reference.sample_backward,
        cost=_cost,
        recipe=_backward,
    )
)
register(
    Implementation(
        name="row_cross_entropy_both",
        kind=LOSS_AND_GRADIENT,
        refuses=_refuses,
        candidates=_candidates,
        reference=reference.both,
        sample=reference.sample_both,
        cost=_cost,
        recipe=_both,
    )
)
