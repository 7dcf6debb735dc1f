"""How far a correct computation may be from eager's because it rounds otherwise."""

from __future__ import annotations

# One unit in the last place of an f32 number, and the relative rounding error of an f32 operation; sums are in f32.
UNIT = 2.0**-23
ROUNDING = 2.0**-24
# How much further a correct computation may be from eager than eager from itself.
MARGIN = 4.0
# The largest relative effect of order on a sum: real ones stay far below their bound.
LONGEST_SUM = 1e-3


def of_order(terms: int) -> float:
    """The largest relative effect of the order of so many terms of one sign on their sum."""
    return min(terms * ROUNDING, LONGEST_SUM)
