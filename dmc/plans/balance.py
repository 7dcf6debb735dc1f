"""Cuts of a model into stages that take about equally long."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from dmc.errors import PlanError
from dmc.plans.rules import Pipeline


def balanced(rule: Pipeline, stages: int, modules: Sequence[str], times: Mapping[str, float]) -> tuple[str, ...]:
    """The modules that begin stages 1, 2, …, of which the longest is as short as it can be.

    times: of modules, without what is inside them, by path. Stages begin at blocks: members of lists, such as `h.0`,
    that are in no other list. What stands between two blocks in the order of `modules` belongs to the first of them,
    embeddings to stage 0, and what is in no module to the last. Raises PlanError where there are fewer blocks than
    cuts.
    """
    blocks = [path for path in modules if _is_block(path)]
    sizes = _sizes(blocks, modules, times)
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


def _sizes(blocks: Sequence[str], modules: Sequence[str], times: Mapping[str, float]) -> list[int]:
    """The times of what is before the first block, and from each block to the next, in whole units, so that equal
    blocks are equal."""
    order = {path: index for index, path in enumerate(modules)}
    starts = [order[path] for path in blocks]
    sizes = [0] * (len(blocks) + 1)
    for path, time in times.items():
        # The loss has no module, and comes last.
        sizes[bisect_right(starts, order[path]) if path in order else len(blocks)] += round(time)
    return sizes


def _cuts(sums: Sequence[int], first: int, stages: int) -> list[int]:
    """The blocks that begin stages, by number: the longest stage is shortest, and of such cuts the earliest ones.

    sums: the time before what is before the first block, then before each block, and of everything.
    """
    # sums[i + 1] is what stands before block i. By count of stages: the longest of them, and where the last begins.
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
