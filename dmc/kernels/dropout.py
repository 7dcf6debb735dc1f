"""Dropout inside a kernel: the same bits as the composite `dropout` draws for the same tensor."""

from __future__ import annotations

from dataclasses import dataclass

_WORDS = 2**32


@dataclass(frozen=True)
class Dropout:
    """Of a tensor whose rows have `columns` elements: an element is kept where its 32-bit word is ≥ `threshold`.

    scale: what kept elements are multiplied by. wide: the tensor has so many blocks that their numbers need 64 bits.
    """

    columns: int
    threshold: int
    scale: float
    wide: bool


def dropout_of(p: float, elements: int, columns: int) -> Dropout | None:
    """Dropout with probability `p` in a tensor of so many elements; None where nothing is dropped."""
    if p <= 0.0:
        return None
    return Dropout(columns, round(p * _WORDS), 1.0 / (1.0 - p), elements // 4 >= _WORDS)


def refuses_dropout(p: float) -> str | None:
    """Why no kernel drops with this probability, or None."""
    # A threshold of 2³² does not fit a word.
    return None if round(p * _WORDS) < _WORDS else f"drops everything (p = {p})"
