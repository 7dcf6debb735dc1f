"""Lines of a plan as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.table import Table

from dmc.program import Range
from dmc.runtime.reports.plan.lines import Line, Wait

# How a range's memory space is shown; device memory is the default.
_SPACES = {"device": "", "staged": "staged ", "pinned_host": "pinned ", "host": "host "}
# At most this many ranges are shown; the others are counted.
_MOST_RANGES = 4
_COLUMNS: tuple[tuple[str, Callable[[Line], str]], ...] = (
    ("lane", lambda line: line.lane),
    ("kind", lambda line: line.kind),
    ("label", lambda line: f"{line.action} {line.label}".lstrip()),
    ("kernel", lambda line: line.kernel),
    ("waits for", lambda line: ", ".join(map(wait_text, line.waits))),
    ("signals", lambda line: ", ".join(f"e{event}" for event in line.signals)),
    ("bytes", lambda line: f"{line.bytes:,}" if line.bytes else ""),
    ("reads", lambda line: ranges_text(line.reads)),
    ("writes", lambda line: ranges_text(line.writes)),
)


def table(rows: Iterable[tuple[str, Line]]) -> Table:
    """Lines in columns, each after the text of its first column."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    made.add_column("#", justify="right", no_wrap=True)
    for name, _ in _COLUMNS:
        made.add_column(name, justify="right" if name == "bytes" else "left", overflow="fold")
    for first, line in rows:
        made.add_row(first, *(text(line) for _, text in _COLUMNS))
    return made


def ranges_text(ranges: Sequence[Range]) -> str:
    """`[256, 320) pinned [0, 4)`; for many, the first and the number of others."""
    shown = [f"{_SPACES[each.space]}[{each.offset}, {each.end})" for each in ranges[:_MOST_RANGES]]
    rest = len(ranges) - len(shown)
    return " ".join([*shown, *([f"and {rest} more"] if rest else [])])


def wait_text(wait: Wait) -> str:
    """`e3 (16)`: the event, and the command after which it is signalled."""
    return f"e{wait.event}" if wait.after is None else f"e{wait.event} ({wait.after})"
