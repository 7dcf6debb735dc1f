"""Merging nodes of a graph keeps it acyclic, and refuses nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.analysis.kernels.clusters import Clusters


def _leads(edges: set[tuple[int, int]], start: int, end: int) -> bool:
    """Whether a path of two edges or more leads from `start` to `end`."""
    seen: set[int] = set()
    pending = [b for a, b in edges if a == start and b != end]
    while pending:
        node = pending.pop()
        if node == end:
            return True
        if node not in seen:
            seen.add(node)
            pending += [b for a, b in edges if a == node]
    return False


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_merges(random: Any) -> None:
    count = random.randrange(2, 14)
    edges = {(a, b) for a in range(count) for b in range(a + 1, count) if random.random() < 0.25}
    clusters = Clusters([[b for a, b in sorted(edges) if a == node] for node in range(count)])
    for _ in range(count * 2):
        one, other = clusters.find(random.randrange(count)), clusters.find(random.randrange(count))
        if one == other:
            continue
        has_detour = _leads(edges, one, other) or _leads(edges, other, one)
        merged = clusters.merge(one, other)
        assert (merged is None) == has_detour
        if merged is None:
            continue
        kept, gone = merged
        assert {kept, gone} == {one, other}
        assert clusters.find(gone) == kept
        edges = {(kept if a == gone else a, kept if b == gone else b) for a, b in edges}
        edges.discard((kept, kept))
        assert edges == {(a, b) for a, later in enumerate(clusters.after) for b in later}
        assert edges == {(a, b) for b, earlier in enumerate(clusters.before) for a in earlier}
        assert all(clusters.order[a] < clusters.order[b] for a, b in edges)
