"""Idle times of named schedules in closed form, for stages that all take the same times and messages that take none."""

from __future__ import annotations


def idle_formula(
    name: str, ranks: int, microbatches: int, chunks: int, forward: float, inputs: float, weights: float
) -> float | None:
    """The bubble of a named schedule (`Played.bubble`), in the unit of the times; None where no formula is known.

    forward, inputs, weights: the times of one stage, so of one of the chunks of a rank.
    """
    others = ranks - 1
    match name:
        case "gpipe" | "1f1b" | "interleaved":
            return others * (forward + inputs + weights)
        case "bfs":
            # A chunk with fewer micro-batches than ranks waits for its first one to come round.
            waits = others + (chunks - 1) * max(0, ranks - microbatches)
            return waits * (forward + inputs + weights)
        case _:
            return None
