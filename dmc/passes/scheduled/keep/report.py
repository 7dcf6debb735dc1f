"""What dm-keep prints: what is held at the peak, and what was decided."""

from __future__ import annotations

import sys
from collections import Counter

from dmc.passes.scheduled.keep.replay import replay
from dmc.passes.scheduled.keep.step import Again, Step
from dmc.passes.scheduled.keep.words import Wanted
from dmc.passes.shared.report import print_table, starred

HEAD = ("results of", "kernels", "bytes", "µs to compute again", "decision")


def print_reasons(step: Step, wanted: Wanted, again: Again) -> None:
    """Prints on stderr each kernel whose results are held at the peak, as it would be if all was kept, or that runs
    again; equal ones as one row, the largest first; and the sums."""
    graph, before, after = step.graph, replay(step, {}), replay(step, again)
    rows: Counter[tuple[str, int, str, str]] = Counter()
    for index, task in enumerate(graph.tasks):
        size = sum(graph.sizes[each] for each in task.writes if index in again or before.is_live(each))
        if size:
            label = starred(task.label)
            rows[label, size, f"{task.ns / 1000:.1f}", _decision(index, step, wanted, again)] += 1
    ordered = sorted(rows.items(), key=lambda row: (-row[0][1] * row[1], row[0]))
    print_table(HEAD, [(key[0], count, f"{key[1] * count:,}", *key[2:]) for key, count in ordered])
    ns = sum(graph.tasks[each].ns for each in again)
    peaks = f"peak {before.peak:,} → {after.peak:,} bytes"
    print(f"{peaks}; {len(again)} kernels run again, {ns / 1000:.1f} µs", file=sys.stderr)


def _decision(index: int, step: Step, wanted: Wanted, again: Again) -> str:
    if index in wanted.again:
        return "computed again: requested"
    if index in again:
        return "computed again: memory cap"
    if index in wanted.pinned:
        return "kept: requested"
    return "kept" if index in step.kernels() else "kept: it cannot run again"
