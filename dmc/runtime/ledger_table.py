"""A ledger as text for the terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dmc.runtime.dtypes import describe
from dmc.runtime.movements import Entry, Movements, Total

UNKNOWN = "-"
# A component of a module path that is a number.
_LAYER = re.compile(r"(^|[ .])\d+(?=[.# ]|$)")
_NOTHING = "one rank: nothing is sent"


def table(movements: Movements, every: bool, width: int) -> str:
    """See `Ledger.table`."""
    if not movements.mesh:
        return _NOTHING
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, markup=False, emoji=False, highlight=False)
    for part in (_head(movements), _movements(movements, every), _totals(movements), _bounds(movements)):
        console.print(part, "")
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).rstrip()


def _head(movements: Movements) -> Text:
    axes = ", ".join(f"{axis}={size}" for axis, size in movements.mesh.items())
    most = max(movements.ranks, default=0)
    return Text(f"mesh {axes}: {_size(movements.bytes)} in one step, at most {_size(most)} from one rank")


def _movements(movements: Movements, every: bool) -> Table:
    made = _table("movement", "tensor", "each rank sends", "over", "bytes", "ratio", "why")
    for entries in ([entry] for entry in movements.entries) if every else _alike(movements.entries):
        first, sent = entries[0], sum(entry.bytes for entry in entries)
        count = f" ×{len(entries)}" if len(entries) > 1 else ""
        made.add_row(
            first.kind,
            f"{_common([entry.tensor or UNKNOWN for entry in entries])}{count}",
            describe(first.dtype, first.shape),
            f"{_axes(first.axes)} ({first.group})",
            _size(sent),
            _ratio(_sum(movements, entries)),
            _common([entry.why for entry in entries]) or UNKNOWN,
        )
        if every:
            made.add_row("", Text(f"  {first.place or UNKNOWN}", style="dim"))
    return made


def _totals(movements: Movements) -> Table:
    made = _table("total", "bytes", "share")
    rows: Mapping[str, int] = {
        **movements.by_kind(),
        **{f"over {_axes(axes)}": size for axes, size in movements.by_axes().items()},
    }
    for name, size in rows.items():
        made.add_row(name, _size(size), f"{100 * size / movements.bytes:.1f} %" if movements.bytes else UNKNOWN)
    return made


def _bounds(movements: Movements) -> Table:
    made = _table("lower bound", "sent", "at least", "ratio")
    bounded = movements.bounded()
    for axes, total in bounded.items():
        made.add_row(f"over {_axes(axes)}", _size(total.bytes), _size(total.bound or 0), _ratio(total))
    rest = movements.bytes - sum(total.bytes for total in bounded.values())
    made.add_row("everything else", _size(rest), UNKNOWN, UNKNOWN)
    return made


def _table(first: str, *others: str) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    made.add_column(first, no_wrap=True)
    for name in others:
        is_number = name in ("bytes", "ratio", "share", "sent", "at least")
        made.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
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


def _size(count: int) -> str:
    return f"{count:,} B"
