"""Where the backward pass makes values again."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from heapq import heappop, heappush

from dmc._mlir import ir
from dmc.analysis.kernels.cheap import cheap_reads
from dmc.dialect.labels import action_of
from dmc.passes.scheduled.tensors.recompute.cut import Cut
from dmc.passes.shared.step import Step, base_of


def places_of(step: Step, cut: Cut) -> dict[ir.Operation, ir.Operation]:
    """For each operation that runs again, the operation of the backward pass before which it does.

    It is the first that reads something of the cut. In a pipeline, whose micro-batches may have something in common,
    such as embeddings of positions, it is the first in the same action as what reads this value: others of the cut
    may be before the forward pass that is made again.
    """
    numbers, kept = step.numbers, set(cut.kept)
    actions: defaultdict[str, list[int]] = defaultdict(list)
    for number in sorted({numbers[reader] for value in cut.again for reader in step.readers[value]}):
        actions[action_of(step.ops[number].location)].append(number)
    first: dict[int, int] = {}
    pending: list[int] = []

    def need(value: ir.Value, place: int) -> None:
        maker = numbers[value.owner.operation]
        if maker not in first:
            heappush(pending, -maker)
        first[maker] = min(place, first.get(maker, place))

    for value in cut.again:
        need(value, min(numbers[reader] for reader in step.readers[value]))
    # The last first, so that whatever reads a value has a place before the value does.
    while pending:
        maker = -heappop(pending)
        own = actions[action_of(step.ops[first[maker]].location)]
        place = first[maker] = min(first[maker], own[bisect_right(own, maker)])
        for value in map(base_of, cheap_reads(step.ops[maker])):
            if value not in kept and not step.is_shared(value):
                need(value, place)
    return {step.ops[maker]: step.ops[place] for maker, place in first.items()}
