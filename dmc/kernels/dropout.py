"""Dropout inside a kernel: the same bits as the composite `dropout` draws for the same tensor.

A problem may say with how many `bits` an element is drawn (32, as the composites do, 16 or 8) and in how many `rounds`
of Philox (10): fewer of both are faster. With few bits the probability is rounded, and the scale fits what it is then.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmc.kernels.problem import Problem

_BLOCK_BITS = 128
_WIDTHS = (8, 16, 32)


@dataclass(frozen=True)
class Dropout:
    """Of a tensor whose rows have `columns` elements: an element is kept where its lane of a block is ≥ `threshold`.

    lanes: elements that share a block of 128 bits; mask: the bits of a lane. scale: what kept elements are multiplied
    by. wide: the tensor has so many blocks that their numbers need 64 bits.
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
        """Whether rows begin with a block."""
        return self.columns % self.lanes == 0


def dropout_of(problem: Problem, elements: int, columns: int) -> Dropout | None:
    """Dropout as a problem wants it, in a tensor of so many elements; None where nothing is dropped."""
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
    """Why no kernel drops as a problem wants it, or None."""
    bits, p = int(problem.get("bits", 32)), problem.number("p")
    if bits not in _WIDTHS:
        return f"an element is drawn with {bits} bits"
    # Such a threshold has more bits than a lane.
    return None if round(p * 2**bits) < 2**bits else f"drops everything (p = {p})"
