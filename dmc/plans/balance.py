"""Cuts of a model into stages with about equal numbers of parameters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import prod

from dmc.errors import PlanError
from dmc.plans.rules import Pipeline
from dmc.runtime.signature import StateSpec

_TRAINED = ("parameter", "frozen")


def balanced(rule: Pipeline, stages: int, modules: Sequence[str], state: Sequence[StateSpec]) -> tuple[str, ...]:
    """The modules that begin stages 1, 2, …, of which the largest is as small as it can be.

    Stages begin at blocks: members of lists, such as `h.0`, that are in no other list. What stands between two blocks
    in the order of `modules` belongs to the first of them, embeddings to stage 0, and a shared parameter to the module
    of its first name. Raises PlanError where there are fewer blocks than cuts.
    """
    blocks = [path for path in modules if _is_block(path)]
    sizes = _sizes(blocks, modules, state)
    # A stage needs something before its first block.
    first = 0 if sizes[0] else 1
    if len(blocks) - first < stages - 1:
        fact = f"finds {len(blocks) - first} blocks at which a stage may begin, but {stages} stages want {stages - 1}"
        raise PlanError(str(rule), fact, hint="list the modules that begin stages: cut=[…]")
    starts = _cuts([0, *accumulate(sizes)], first, stages)
    return tuple(blocks[index] for index in starts)


def _is_block(path: str) -> bool:
    parents, _, last = path.rpartition(".")
    return last.isdigit() and not any(name.isdigit() for name in parents.split("."))


def _sizes(blocks: Sequence[str], modules: Sequence[str], state: Sequence[StateSpec]) -> list[int]:
    """The numbers of parameters before the first block, and from each block to the next."""
    order = {path: index for index, path in enumerate(modules)}
    starts = [order[path] for path in blocks]
    sizes = [0] * (len(blocks) + 1)
    for spec in state:
        if spec.role in _TRAINED:
            # A tensor of the loss has no module, and is used last; one of the model itself is used first.
            owner = spec.name.rpartition(".")[0]
            at = bisect_right(starts, order[owner]) if owner in order else len(blocks)
            sizes[at] += prod(spec.shape)
    return sizes


def _cuts(sums: Sequence[int], first: int, stages: int) -> list[int]:
    """The blocks that begin stages, by number: the largest stage is smallest, and of such cuts the earliest ones.

    sums: the parameters before the first block's parameters, then before those of each next one.
    """
    # sums[i + 1] is what stands before block i. By count of stages: the largest of them, and where the last begins.
    count = len(sums) - 2
    before = [sums[index + 1] for index in range(count)] + [sums[-1]]
    best: list[list[tuple[int, int]]] = [[(size, 0) for size in before]]
    for stage in range(1, stages):
        row: list[tuple[int, int]] = []
        for end in range(count + 1):
            begins = range(first + stage - 1, end)
            found = [(max(best[-1][begin][0], before[end] - before[begin]), begin) for begin in begins]
            row.append(min(found, default=(sums[-1] + 1, 0)))
        best.append(row)
    cuts, end = list[int](), count
    for stage in range(stages - 1, 0, -1):
        end = best[stage][end][1]
        cuts.append(end)
    return cuts[::-1]
