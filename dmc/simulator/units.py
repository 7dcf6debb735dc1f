"""Times and shares in readable units."""

from __future__ import annotations

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def time_text(ns: float) -> str:
    """`12.345 ms`: three decimals of the largest unit that fits."""
    for size, unit in _TIMES:
        if ns >= size:
            return f"{ns / size:,.3f} {unit}"
    return f"{ns:.0f} ns"


def share_text(part: float, whole: float) -> str:
    """`12.3 %`; 0 if the whole is 0."""
    return f"{100 * part / whole if whole else 0:.1f} %"
