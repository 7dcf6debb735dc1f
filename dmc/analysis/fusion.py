"""Which computations become one kernel."""

from __future__ import annotations

from dmc.analysis.step_graph import Graph, Kind


def fuse(graph: Graph) -> list[tuple[int, ...]]:
    """Groups of operations that become one kernel each, every operation that computes in one of them."""
    return [(number,) for number, kind in enumerate(graph.kinds) if kind is Kind.COMPUTE]
