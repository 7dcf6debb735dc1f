"""Dropout inside a kernel: the same bits as the composite `dropout` for the same tensor.

A problem may set the number of `bits` per element (32, as in the composites, 16 or 8) and of `rounds` of Philox (10):
fewer are faster. With few bits the probability is rounded, and the scale matches the rounded one.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmc.kernels.problem import Problem

_BLOCK_BITS = 128
_WIDTHS = (8, 16, 32)


@dataclass(frozen=True)
class Dropout:
    """For a tensor whose rows have `columns` elements: an element is kept if its lane of a block is ≥ `threshold`.

    lanes: elements that share a block of 128 bits; mask: the bits of a lane. scale: the factor of kept elements. wide:
    block numbers need 64 bits.
    """

    columns: int
    threshold: int
    scale: float
    wide: bool
    lanes: int
    mask: int
    rounds: int

    @property
    def is_aligned(self) -> bool:
        """Whether rows begin at a block boundary."""
        return self.columns % self.lanes == 0


def dropout_of(problem: Problem, elements: int, columns: int) -> Dropout | None:
    """A problem's dropout, in a tensor of this many elements; None if nothing is dropped."""
    p = problem.number("p")
    if p <= 0.0:
        return None
    bits = int(problem.get("bits", 32))
    threshold = round(p * 2**bits)
    scale = 1.0 / (1.0 - (p if bits == 32 else threshold / 2**bits))
    lanes = _BLOCK_BITS // bits
    wide = elements // lanes >= 2**32
    return Dropout(columns, threshold, scale, wide, lanes, 2**bits - 1, int(problem.get("rounds", 10)))


def refuses_dropout(problem: Problem) -> str | None:
    """Why no kernel supports a problem's dropout, or None."""
    bits, p = int(problem.get("bits", 32)), problem.number("p")
    if bits not in _WIDTHS:
        return f"an element is drawn with {bits} bits"
    # Such a threshold does not fit a lane.
    return None if round(p * 2**bits) < 2**bits else f"drops everything (p = {p})"
