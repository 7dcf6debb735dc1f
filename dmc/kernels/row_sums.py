"""Which kernels over rows may also add up columns over all rows, as the gradients of a normalisation's weights."""

from __future__ import annotations

from collections.abc import Sequence

# A row fits in the registers of a program, with what is added up.
_WIDEST = 2048
# With fewer rows, a program has too few of them for its sums to pay.
_FEWEST = 4096
# So many programs keep a GPU busy; the least that do.
PROGRAMS, _LEAST_PROGRAMS = 528, 128


def may_add_up(rows: int, width: int) -> bool:
    """Whether a kernel over so many rows of `width` elements may; these are always more than a row has elements."""
    return rows >= _FEWEST and width <= _WIDEST and programs_of(rows, PROGRAMS) >= _LEAST_PROGRAMS


def programs_of(rows: int, most: int) -> int:
    """The most programs, at most so many, among which rows are divided evenly."""
    return max(each for each in range(1, most + 1) if rows % each == 0)


def is_across(rows: Sequence[int], columns: Sequence[int]) -> bool:
    """Whether reductions over rows, by their number and width, and over columns, likewise, are of one matrix."""
    count, width = rows
    return tuple(columns) == (width, count) and may_add_up(count, width)
