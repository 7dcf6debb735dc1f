"""What dm-keep prints: the values that the backward pass reads, and what was decided."""

from __future__ import annotations

import re
import sys
from collections import Counter

from dmc.analysis.tasks.graph import TaskGraph
from dmc.passes.scheduled.keep.forward import Forward
from dmc.passes.scheduled.keep.replay import replay
from dmc.passes.scheduled.keep.words import Wanted
from dmc.passes.shared.report import print_table

HEAD = ("results of", "kernels", "bytes", "µs to compute again", "decision")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.,])")


def print_reasons(graph: TaskGraph, forward: Forward, wanted: Wanted, again: frozenset[int]) -> None:
    """Prints on stderr each kernel of the forward pass whose results the backward pass reads, equal ones as one row,
    the largest first, and the sums."""
    rows: Counter[tuple[str, int, str, str]] = Counter()
    for index in sorted(forward.tasks):
        size = sum(graph.sizes[each] for each in forward.kept_by(graph, index))
        if size:
            task = graph.tasks[index]
            label = _NUMBER.sub("*", task.label)
            rows[label, size, f"{task.ns / 1000:.1f}", _decision(index, forward, wanted, again)] += 1
    ordered = sorted(rows.items(), key=lambda row: (-row[0][1] * row[1], row[0]))
    print_table(HEAD, [(key[0], count, f"{key[1] * count:,}", *key[2:]) for key, count in ordered])
    before, after = (replay(graph, forward, each).peak for each in (frozenset[int](), again))
    ns = sum(graph.tasks[each].ns for each in again)
    print(f"peak {before:,} → {after:,} bytes; {len(again)} kernels run again, {ns / 1000:.1f} µs", file=sys.stderr)


def _decision(index: int, forward: Forward, wanted: Wanted, again: frozenset[int]) -> str:
    if index in wanted.again:
        return "computed again: requested"
    if index in again:
        return "computed again: memory cap"
    if index in wanted.pinned:
        return "kept: requested"
    return "kept" if index in forward.makers.values() else "kept: it cannot run again"
