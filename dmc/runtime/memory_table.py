"""A memory report as text for the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from dmc.runtime.memory_report import CATEGORIES, MemoryReport, RankMemory

UNKNOWN = "-"
_LARGEST = 10


def table(report: MemoryReport, width: int) -> str:
    """The report in lines of at most `width` columns: contents of the arena, activations by module, the largest buffers
    at the peak."""
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, markup=False, emoji=False, highlight=False)
    for memory in report.ranks:
        for part in (head(memory), _categories(memory), _kept(memory), _modules(memory), _largest(memory)):
            console.print(part)
            console.print()
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).rstrip()


def head(memory: RankMemory) -> str:
    """One sentence: who, how much, and where the peak is."""
    others = [f"{size:,} B of {space.replace('_', ' ')} memory" for space, size in memory.arenas.items()]
    where = memory.labels[memory.peak_command] if memory.labels else ""
    at = f"command {memory.peak_command}" + (f", {where}" if where else "")
    return f"{ranks_text(memory.ranks)}: {', '.join(others) or 'no memory'}; the peak is at {at}"


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 0`, or `ranks 0–3, 8`."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [str(first) if first == last else f"{first}–{last}" for first, last in spans]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(words)}"


def rows(memory: RankMemory) -> Iterator[tuple[str, int, int | None]]:
    """The uses of the arena: a name, the bytes at the peak, and the most at any time (None where not meaningful)."""
    most = memory.most
    for category, size in memory.at_peak.items():
        if most[category]:
            yield CATEGORIES[category], size, most[category]
    yield "fragmentation and alignment", memory.fragmentation, None
    yield "arena", memory.arena, None


def _categories(memory: RankMemory) -> Table:
    made = _table("device memory", "at the peak", "share", "most at any time")
    for name, size, most in rows(memory):
        share = f"{100 * size / memory.arena:.1f} %" if memory.arena else UNKNOWN
        made.add_row(name, f"{size:,} B", share, UNKNOWN if most is None else f"{most:,} B")
    return made


def _kept(memory: RankMemory) -> Table:
    made = _table("activations for the backward pass, by module", "kept", "computed again")
    kept, again = memory.kept(), memory.recomputed()
    for module in dict.fromkeys((*kept, *again)):
        made.add_row(module, f"{kept.get(module, 0):,} B", f"{again.get(module, 0):,} B")
    made.add_row("all", f"{sum(kept.values()):,} B", f"{sum(again.values()):,} B")
    return made


def _modules(memory: RankMemory) -> Table:
    made = _table("activations at the peak, by module", "bytes")
    for module, size in memory.modules().items():
        made.add_row(module, f"{size:,} B")
    return made


def _largest(memory: RankMemory) -> Table:
    made = _table("largest at the peak", "bytes", "what")
    alive = memory.alive(memory.peak_command)
    for buffer in alive[:_LARGEST]:
        made.add_row(buffer.label or UNKNOWN, f"{buffer.range.length:,} B", buffer.category)
    if rest := alive[_LARGEST:]:
        made.add_row(f"{len(rest)} others", f"{sum(buffer.range.length for buffer in rest):,} B", "")
    return made


def _table(first: str, *others: str) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    made.add_column(first, overflow="fold")
    for name in others:
        made.add_column(name, justify="left" if name == "what" else "right", no_wrap=True)
    return made
