"""A ledger as tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmc.dtypes import describe
from dmc.program.movements import Entry, Movements, Total
from dmc.program.sizes import size_text
from dmc.runtime.reports.tables import UNKNOWN, table

Size = Callable[[int], str]
# A component of a module path that is a number.
_LAYER = re.compile(r"(^|[ .])\d+(?=[.# ]|$)")
_NOTHING = "one rank: nothing is sent"


def parts(movements: Movements, every: bool, exact: bool) -> list[RenderableType]:
    """What `Ledger.table` shows, one below the other."""
    size = partial(size_text, exact=exact)
    host = list(_with_host(movements, size))
    if not movements.mesh:
        return [_NOTHING, *host]
    return [
        _head(movements, size),
        *host,
        _movements(movements, every, size),
        _totals(movements, size),
        _bounds(movements, size),
    ]


def _head(movements: Movements, size: Size) -> str:
    axes = ", ".join(f"{axis}={ranks}" for axis, ranks in movements.mesh.items())
    most = max(movements.ranks, default=0)
    return f"mesh {axes}: {size(movements.bytes)} in one step, at most {size(most)} from one rank"


def _with_host(movements: Movements, size: Size) -> Iterator[str]:
    """What ranks move to host memory and back, or the other way round."""
    if most := max(movements.offloaded, default=0):
        yield f"offloaded: {size(most)} to host memory and back, of each rank"
    if most := max(movements.fetched, default=0):
        yield f"optimizer state: {size(most)} from host memory and back, of each rank"


def _movements(movements: Movements, every: bool, size: Size) -> Table:
    words = ("tensor", "each rank sends", "over", "why")
    made = table("movement", "tensor", "each rank sends", "over", "size", "ratio", "why", words=words)
    for entries in ([entry] for entry in movements.entries) if every else _alike(movements.entries):
        first, sent = entries[0], sum(entry.bytes for entry in entries)
        count = f" ×{len(entries)}" if len(entries) > 1 else ""
        made.add_row(
            first.kind,
            f"{_common([entry.tensor or UNKNOWN for entry in entries])}{count}",
            describe(first.dtype, first.shape),
            f"{_axes(first.axes)} ({first.group})",
            size(sent),
            _ratio(_sum(movements, entries)),
            _common([entry.why for entry in entries]) or UNKNOWN,
        )
        if every:
            made.add_row("", Text(f"  {first.place or UNKNOWN}", style="dim"))
    return made


def _totals(movements: Movements, size: Size) -> Table:
    made = table("total", "size", "share")
    rows: Mapping[str, int] = {
        **movements.by_kind(),
        **{f"over {_axes(axes)}": sent for axes, sent in movements.by_axes().items()},
    }
    for name, sent in rows.items():
        made.add_row(name, size(sent), f"{100 * sent / movements.bytes:.1f} %" if movements.bytes else UNKNOWN)
    return made


def _bounds(movements: Movements, size: Size) -> Table:
    made = table("lower bound", "sent", "at least", "ratio")
    bounded = movements.bounded()
    for axes, total in bounded.items():
        made.add_row(f"over {_axes(axes)}", size(total.bytes), size(total.bound or 0), _ratio(total))
    rest = movements.bytes - sum(total.bytes for total in bounded.values())
    made.add_row("everything else", size(rest), UNKNOWN, UNKNOWN)
    return made


def _alike(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Entries that differ only in the numbers of their layers, in the order of the first of each."""
    groups: dict[Entry, list[Entry]] = {}
    for entry in entries:
        key = replace(entry, tensor=_starred(entry.tensor), why=_starred(entry.why), place="", label="")
        groups.setdefault(key, []).append(entry)
    yield from groups.values()


def _starred(text: str) -> str:
    """With "*" for the first number of each module path, the layer's."""
    return "; ".join(_LAYER.sub(r"\1*", part, count=1) for part in text.split("; "))


def _common(alike: Sequence[str]) -> str:
    """A common name for these, which differ at most in layer numbers."""
    return alike[0] if len(set(alike)) == 1 else _starred(alike[0])


def _axes(axes: Sequence[str]) -> str:
    return " × ".join(axes)


def _sum(movements: Movements, entries: Sequence[Entry]) -> Total:
    """The sum of the entries' totals; without a bound if one of them has none."""
    bounds = [movements.bound_of(entry) for entry in entries]
    totals = [Total(0) if bound is None else movements.totals[bound] for bound in dict.fromkeys(bounds)]
    known = None if None in bounds else sum(total.bound or 0 for total in totals)
    return Total(sum(total.bytes for total in totals), known)


def _ratio(total: Total) -> str:
    return UNKNOWN if total.ratio is None else f"{total.ratio:.2f}"
