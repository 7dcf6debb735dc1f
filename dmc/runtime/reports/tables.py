"""Tables of reports, as text for the terminal and as HTML for notebooks."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

UNKNOWN = "-"
# Nothing in a notebook is as wide as a line may be: it scrolls.
_HTML_WIDTH = 160
_HTML = '<pre style="white-space: pre; overflow-x: auto; line-height: 1.3; font-family: monospace">{code}</pre>'


def table(first: str, *others: str, words: Collection[str] = ()) -> Table:
    """An empty table with these columns: numbers, but for the first and those of `words`."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    made.add_column(first, overflow="fold")
    for name in others:
        is_words = name in words
        made.add_column(name, justify="left" if is_words else "right", no_wrap=not is_words, overflow="fold")
    return made


def as_text(parts: Iterable[RenderableType], width: int) -> str:
    """The parts as lines of at most `width` columns, an empty line between two."""
    stream = io.StringIO()
    _print(Console(file=stream, width=width, color_system=None, markup=False, emoji=False, highlight=False), parts)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip()


def as_html(parts: Iterable[RenderableType]) -> str:
    """The parts as HTML that needs no style sheet."""
    console = Console(file=io.StringIO(), width=_HTML_WIDTH, record=True, markup=False, emoji=False, highlight=False)
    _print(console, parts)
    return console.export_html(inline_styles=True, code_format=_HTML)


def _print(console: Console, parts: Iterable[RenderableType]) -> None:
    for part in parts:
        console.print(part)
        console.print()
