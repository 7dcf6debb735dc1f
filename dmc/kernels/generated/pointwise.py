"""Elementwise computation: a flat tile per program."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmc._mlir import ir
from dmc.kernels.bits import packed_width
from dmc.kernels.generated.index import Index, variable
from dmc.kernels.generated.launch import Launch, Root, power_of_two
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Call
from dmc.program.sizes import element_bytes

_CANDIDATES = (candidate(block=1024, warps=4), candidate(block=2048, warps=8), candidate(block=512, warps=4))
# A thread writes sixteen bytes at once; of a mask that is drawn, these elements share their random words.
_OF_BYTES = candidate(block=2048, warps=4)
# A thread makes whole words of bits, each from several random blocks.
_OF_WORDS = candidate(block=256, warps=4)
# So many results of one element are as much as a thread can hold.
_MANY, _OF_MANY = 6, candidate(block=256, warps=4)


def candidates(roots: Sequence[Root]) -> tuple[Candidate, ...]:
    """The ways to make `roots`, the most promising first."""
    made = [root.value.owner for root in roots if not isinstance(root.value.owner, ir.Block)]
    if any(packed_width(op) for op in made):
        return (_OF_WORDS, *_CANDIDATES)
    is_narrow = all(element_bytes(str(root.value.type.element_type)) == 1 for root in roots)
    if len(roots) > _MANY:
        return (_OF_MANY, *_CANDIDATES)
    return (_OF_BYTES, *_CANDIDATES) if is_narrow else _CANDIDATES


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
