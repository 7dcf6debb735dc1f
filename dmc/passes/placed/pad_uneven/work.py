"""The padding of one operation: of its loops, and so of its operands and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from dmc._mlir import ir
from dmc.analysis.loops.loops import FIXED, PARALLEL, Dims, Loops
from dmc.placement.pads import Pad, Pads, loop_of

# By the number of a loop.
LoopPads = Mapping[int, Pad]


@dataclass(frozen=True)
class Work:
    """How an operation is computed with padding.

    operands: as the operation had them, with the padding in which each is read; None for what is no tensor. masked:
    loops of which the body leaves out the padding. zeroed: by operand, its dimensions whose padding must be zero.
    filled: by operand, the number that is read in padding instead.
    """

    loops: Loops
    pads: LoopPads
    operands: tuple[tuple[ir.Value, Pads | None], ...]
    results: tuple[Pads, ...]
    masked: tuple[int, ...] = ()
    zeroed: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    filled: Mapping[int, int] = field(default_factory=dict[int, int])


def work_of(operands: Sequence[ir.Value], loops: Loops, pads: LoopPads) -> Work:
    """The work of an operation with these operands whose loops are padded so."""
    given = tuple(
        (value, None if dims is None else pads_of(dims, loops, pads))
        for value, dims in zip(operands, loops.operands, strict=True)
    )
    return Work(loops, pads, given, tuple(pads_of(dims, loops, pads) for dims in loops.results))


def pads_of(dims: Dims, loops: Loops, pads: LoopPads) -> Pads:
    """The padding of a tensor of these dimensions."""
    return tuple(_around(own, loops, pads) for own in dims)


def asked(loops: Loops, given: Sequence[Pads | None]) -> dict[int, Pad]:
    """The loops that padded operands ask to be padded, as far as they can be."""
    found: dict[int, Pad] = {}
    for i, dims in loops.read():
        pads = given[i]
        for own, pad in zip(dims, pads, strict=True) if pads is not None else ():
            inner = None if pad is None else inner_of(own, pad, loops)
            if inner is not None and can_be_padded(loops, inner[0]):
                found.setdefault(*inner)
    return apart(loops, found)


def inner_of(own: Sequence[int], pad: Pad, loops: Loops) -> tuple[int, Pad] | None:
    """The loop, of those over a dimension, that is padded, and how."""
    found = loop_of(pad, [loops.loops[loop].size for loop in own])
    return None if found is None else (own[found[0]], found[1])


def can_be_padded(loops: Loops, loop: int) -> bool:
    """Whether a loop may have further iterations: it is over pieces of no dimension, and in every result or summed.

    A result without dimensions, where another operation of the kind has one, is a constant.
    """
    kind = loops.loops[loop].kind
    if kind == FIXED:
        return False
    return kind != PARALLEL or all(any(loop in own for own in dims) for dims in loops.results if dims)


def apart(loops: Loops, pads: LoopPads) -> dict[int, Pad]:
    """Without loops that would pad a dimension twice; the first stays."""
    kept = dict(pads)
    for dims in (*loops.results, *(dims for dims in loops.operands if dims is not None)):
        for own in dims:
            for loop in [loop for loop in own if loop in kept][1:]:
                del kept[loop]
    return kept


def carrying(dims: Dims, loop: int) -> Iterator[int]:
    """The dimensions over which a loop runs."""
    return (dim for dim, own in enumerate(dims) if loop in own)


def _around(own: Sequence[int], loops: Loops, pads: LoopPads) -> Pad | None:
    for place, loop in enumerate(own):
        if loop in pads:
            before, after = ([loops.loops[each].size for each in some] for some in (own[:place], own[place + 1 :]))
            return pads[loop].around(prod(before), prod(after))
    return None
