"""Schedules with whole backward passes: GPipe, 1F1B, interleaved 1F1B, breadth first.

GPipe: Huang et al. 2019, arXiv:1811.06965. 1F1B with a flush: Narayanan et al. 2021 (PipeDream-2BW), arXiv:2006.09503.
Interleaved: Narayanan et al. 2021 (Megatron-LM), arXiv:2104.04473. Breadth first: Lamy-Poirier 2023, arXiv:2211.05953.

Each function returns the row of one rank. Every stage takes its micro-batches in order, forward and backward, so that
sums over them have the order of a step on one rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmc.schedules.table import Action


def staggered(*started: tuple[Sequence[Action], int]) -> list[Action]:
    """Sequences merged turn by turn, each from its own turn on.

    `(F0 F1 F2, 0), (B0 B1 B2, 1)` is `F0 F1 B0 F2 B1 B2`.
    """
    turns = max(start + len(sequence) for sequence, start in started)
    return [
        sequence[turn - start]
        for turn in range(turns)
        for sequence, start in started
        if 0 <= turn - start < len(sequence)
    ]


def gpipe(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """All forward passes, then all backward passes."""
    return breadth_first(rank, ranks, microbatches, chunks)


def one_forward_one_backward(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """As many forward passes as there are ranks behind, then forward and backward in turn."""
    forward = [Action("F", rank, micro) for micro in range(microbatches)]
    backward = [Action("B", rank, micro) for micro in range(microbatches)]
    return staggered((forward, 0), (backward, ranks - rank - 1))


def interleaved(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """1F1B over chunks: as many micro-batches as there are ranks go through a chunk before the next chunk's turn."""
    rounds = [range(first, first + ranks) for first in range(0, microbatches, ranks)]
    stages = range(rank, ranks * chunks, ranks)
    forward = [Action("F", stage, micro) for group in rounds for stage in stages for micro in group]
    backward = [Action("B", stage, micro) for group in rounds for stage in reversed(stages) for micro in group]
    return staggered((forward, 0), (backward, min(len(forward), 2 * (ranks - rank - 1) + (chunks - 1) * ranks)))


def breadth_first(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """All micro-batches go through a chunk before the next chunk's turn."""
    stages = range(rank, ranks * chunks, ranks)
    forward = [Action("F", stage, micro) for stage in stages for micro in range(microbatches)]
    backward = [Action("B", stage, micro) for stage in reversed(stages) for micro in range(microbatches)]
    return forward + backward
