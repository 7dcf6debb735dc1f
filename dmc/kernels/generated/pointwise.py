"""Elementwise computation: a flat tile per program."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmc.kernels.generated.index import Index, variable
from dmc.kernels.generated.launch import Launch, Root, power_of_two
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Call

CANDIDATES = (candidate(block=1024, warps=4), candidate(block=2048, warps=8), candidate(block=512, warps=4))


def pointwise(launch: Launch, roots: Sequence[Root], chosen: Candidate) -> Call:
    """Computes `roots`, all with the same number of elements."""
    place, programs = flat(launch, math.prod(roots[0].shape), chosen["block"])
    for root in roots:
        launch.root(root, place)
    return launch.call(programs, chosen.warps, 1)


def flat(launch: Launch, count: int, block: int) -> tuple[Index, int]:
    """Declares the variable of a flat tile over `count` elements; returns it, and the number of programs."""
    block = min(block, power_of_two(count))
    if count > 1:
        program = "tl.program_id(0)" if count + block < 2**31 else "tl.program_id(0).to(tl.int64)"
        mask = f"{{}} < {count}" if count % block else ""
        launch.variable("place", f"{program} * {block} + tl.arange(0, {block})", mask)
    return variable("place", count), -(-count // block)
