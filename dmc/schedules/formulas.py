"""Idle times of named schedules in closed form, for stages that all take the same times and messages that take none.

Those of whole backward passes and of ZB-H1 and ZB-H2 are of the papers, the last two here also where a gradient of
weights takes longer than a forward. Those of the V schedules hold for equal forwards and gradients only.
"""

from __future__ import annotations


def idle_formula(
    name: str, ranks: int, microbatches: int, chunks: int, forward: float, inputs: float, weights: float
) -> float | None:
    """The bubble of a named schedule (`Played.bubble`), in the unit of the times; None where no formula is known.

    forward, inputs, weights: the times of one stage, so of one of the chunks of a rank. DualPipeV's is of passes that
    run one after the other, none overlapped.
    """
    others = ranks - 1
    alike = forward == inputs == weights
    match name:
        case "gpipe" | "1f1b" | "interleaved":
            return others * (forward + inputs + weights)
        case "bfs":
            # A chunk with fewer micro-batches than ranks waits for its first one to come round.
            waits = others + (chunks - 1) * max(0, ranks - microbatches)
            return waits * (forward + inputs + weights)
        case "zb-h1" if microbatches >= ranks:
            return others * (forward + inputs - min(forward, weights))
        case "zb-h2" if microbatches >= 2 * ranks - 1:
            return others * max(0.0, forward + inputs - 2 * min(forward, weights))
        case "zb-v" if alike and microbatches >= 2 * ranks - 1:
            return 0.0
        case "dualpipev" if alike and microbatches >= 2 * ranks:
            return others * forward
        case _:
            return None
