"""Optimizer updates and sums of squares of many tensors at once, each a launch or two.

`optimizer_update_adam`, `optimizer_update_adamw`: like the composites, for n tensors (parameter `tensors`):
(parameters…, gradients…, exp_avgs…, exp_avg_sqs…, clip, lr, apply, correction1, correction2_sqrt) -> (parameters…,
exp_avgs…, exp_avg_sqs…, [copies…]); copies are the new parameters in a narrower type. Results may replace their
operands in place. `sum_of_squares`: (x…, total) -> total + all squares.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmc.kernels.implementation import Candidate, Implementation, candidate, register
from dmc.kernels.problem import Cost, Problem, TensorType, moved_once
from dmc.kernels.recipe import Buffer, Call, Recipe, Table, operands, results, scratch
from dmc.kernels.references import optimizer as reference

_TABLE = Buffer("table", 0)
_SCALARS = 5
# Without copies.
_COLUMNS = 7
_TYPES = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class ManyShape:
    """The static parameters: types of the columns, the chunk of a program, the block that it processes at once, and the
    rule.

    parts: the number of partial sums.
    """

    types: tuple[str, ...]
    table_width: int
    chunk: int
    block: int
    parts: int = 0
    copied: bool = False
    decoupled: bool = False
    decay: float = 0.0
    one_minus_beta1: float = 0.0
    beta2: float = 0.0
    one_minus_beta2: float = 0.0
    eps: float = 0.0


def _tensors(problem: Problem) -> int:
    return int(problem.number("tensors", 1))


def _columns(problem: Problem) -> list[tuple[TensorType, ...]]:
    """Operands and results by role: parameters, gradients, moments, then the new ones and copies."""
    count = _tensors(problem)
    own = (*problem.operands[: 4 * count], *problem.results)
    return [own[start : start + count] for start in range(0, len(own), count)]


def _refuses_update(problem: Problem) -> str | None:
    columns = _columns(problem)
    if any(len({tensor.dtype for tensor in column}) > 1 for column in columns):
        return "tensors of one role have different types"
    if any(tensor.strides or tensor.dtype not in _TYPES for column in columns for tensor in column):
        return "a tensor is not contiguous, or not floating point"
    return None


def _update(problem: Problem, chosen: Candidate) -> Recipe:
    count = _tensors(problem)
    columns = _columns(problem)
    given = operands(*range(4 * count))
    made = results(*range(len(problem.results)))
    roles = tuple(given[i : i + count] for i in range(0, len(given), count))
    roles += tuple(made[i : i + count] for i in range(0, len(made), count))
    table = Table(roles, tuple(tensor.elements for tensor in columns[0]), chosen["block"])
    beta1, beta2 = problem.number("beta1"), problem.number("beta2")
    shape = ManyShape(
        types=tuple(column[0].dtype for column in columns),
        table_width=len(columns) + 1,
        chunk=chosen["block"],
        block=chosen["block"],
        copied=len(columns) > _COLUMNS,
        decoupled=problem.kind == "optimizer_update_adamw",
        decay=problem.number("weight_decay"),
        one_minus_beta1=1.0 - beta1,
        beta2=beta2,
        one_minus_beta2=1.0 - beta2,
        eps=problem.number("eps"),
    )
    scalars = operands(*range(4 * count, 4 * count + _SCALARS))
    call = Call("optimizer.adam", table.type().shape[0], (_TABLE, *scalars), shape, chosen.warps)
    in_place = [(i, i) for i in range(count)] + [(count + i, 2 * count + i) for i in range(2 * count)]
    return Recipe((call,), tables=(table,), in_place=tuple(in_place))


def _update_cost(problem: Problem) -> Cost:
    return Cost(15 * sum(tensor.elements for tensor in _columns(problem)[0]), moved_once(problem))


def _refuses_squares(problem: Problem) -> str | None:
    given = problem.operands[:-1]
    if len({tensor.dtype for tensor in given}) > 1 or given[0].dtype not in _TYPES:
        return "tensors have different types, or none is floating point"
    return "a tensor is not contiguous" if any(tensor.strides for tensor in given) else None


def _squares(problem: Problem, chosen: Candidate) -> Recipe:
    given = problem.operands[:-1]
    count = len(given)
    table = Table((operands(*range(count)),), tuple(tensor.elements for tensor in given), chosen["chunk"])
    parts = table.type().shape[0]
    shape = ManyShape((given[0].dtype,), table_width=2, chunk=chosen["chunk"], block=chosen["block"], parts=parts)
    calls = (
        Call("optimizer.squares", parts, (_TABLE, *scratch(0)), shape, chosen.warps),
        Call("optimizer.norm", 1, (*scratch(0), *operands(count), *results(0)), shape, warps=8),
    )
    return Recipe(calls, (TensorType("f32", (parts,)),), (table,))


def _squares_cost(problem: Problem) -> Cost:
    return Cost(2 * sum(tensor.elements for tensor in problem.operands), moved_once(problem))


_UPDATE_CANDIDATES = (
    candidate(block=2048, warps=8),
    candidate(block=1024, warps=4),
    candidate(block=4096, warps=8),
    candidate(block=1024, warps=8),
)
_SQUARES_CANDIDATES = (
    candidate(block=4096, chunk=16384, warps=8),
    candidate(block=2048, chunk=16384, warps=4),
    candidate(block=8192, chunk=32768, warps=8),
)

for _kind in ("optimizer_update_adam", "optimizer_update_adamw"):
    register(
        Implementation(
            name=f"many_{_kind}",
            kind=_kind,
            refuses=_refuses_update,
            candidates=lambda problem: _UPDATE_CANDIDATES,
            reference=reference.adam,
            sample=reference.sample_adam,
            cost=_update_cost,
            recipe=_update,
        )
    )
register(
    Implementation(
        name="many_sum_of_squares",
        kind="sum_of_squares",
        refuses=_refuses_squares,
        candidates=lambda problem: _SQUARES_CANDIDATES,
        reference=reference.sum_of_squares,
        sample=reference.sample_squares,
        cost=_squares_cost,
        recipe=_squares,
    )
)
