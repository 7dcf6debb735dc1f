"""The figures of a simulation as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from dmc.program.sizes import size_text
from dmc.simulator.summary import Summary
from dmc.simulator.units import share_text, time_text

_MOST_LINES = 12
_MOST_RANKS = 8


def print_summary(summary: Summary, notes: Sequence[str], width: int) -> None:
    """Prints step time, what computation waits for, idle lanes, the critical path and memory.

    notes: the caveats.
    """
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    ranks = "1 rank" if summary.ranks == 1 else f"{summary.ranks:,} ranks"
    alike = f" ({summary.played} simulated, the others are equivalent)" if summary.played < summary.ranks else ""
    console.print(f"{ranks} of {summary.machine}{alike}; cost table {summary.costs[:12]}")
    for note in notes:
        console.print(f"note: {note}", style="yellow")
    exposed, step = summary.exposed, summary.step_ns
    share = share_text(exposed.communication, step)
    exposing = f"exposed communication {time_text(exposed.communication)} ({share}, rank {exposed.rank})"
    console.print(f"step {time_text(step)}, {exposing}", style="bold")
    if summary.stages:
        idle, most = summary.idle_share * step, summary.most_idle
        rank = f"rank {most.rank} {share_text(step - most.busy, step)}"
        along = ", ".join(summary.stages)
        console.print(
            f"stages along {along}: ranks are idle for {share_text(idle, step)} of the step, most of all {rank}"
        )
    peak = f"{size_text(summary.fullest.peak)} of {size_text(summary.fullest.arena)}"
    stages = [("Stages", _stages(summary))] if summary.stages else []
    for title, table in (
        *stages,
        ("What computation waits for", _waits(summary)),
        ("Lanes", _lanes(summary)),
        ("Critical path", _path(summary)),
        (f"Device memory at the peak of rank {summary.fullest.rank}: {peak}", _memory(summary)),
    ):
        console.print()
        console.print(title, style="bold")
        console.print(table)


def _table(*columns: str, left: int = 1) -> Table:
    """A table whose first `left` columns hold words and the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", overflow="fold")
    return table


def _stages(summary: Summary) -> Table:
    table = _table("rank", "idle", "peak memory")
    for rank, memory in zip(summary.waits[:_MOST_RANKS], summary.memory, strict=False):
        idle = summary.step_ns - rank.busy
        share = share_text(idle, summary.step_ns)
        table.add_row(str(rank.rank), f"{time_text(idle)} {share:>7}", size_text(memory.peak))
    _say_more(table, len(summary.waits) - _MOST_RANKS, "rank")
    return table


def _waits(summary: Summary) -> Table:
    table = _table("rank", "computes", "communication", "copies", "other ranks")
    for rank in summary.waits[:_MOST_RANKS]:
        parts = (rank.busy, rank.communication, rank.copies, rank.others)
        table.add_row(str(rank.rank), *(f"{time_text(ns)} {share_text(ns, summary.step_ns):>7}" for ns in parts))
    _say_more(table, len(summary.waits) - _MOST_RANKS, "rank")
    return table


def _lanes(summary: Summary) -> Table:
    table = _table("rank", "lane", "busy", "waits for members", "idle", left=2)
    shown = {rank.rank for rank in summary.waits[:_MOST_RANKS]}
    for lane in summary.lanes:
        if lane.rank in shown:
            idle = share_text(lane.idle, summary.step_ns)
            table.add_row(str(lane.rank), lane.lane, time_text(lane.busy), time_text(lane.waiting), idle)
    return table


def _path(summary: Summary) -> Table:
    table = _table("where", "kind", "commands", "time", "of the step", left=2)
    for part in summary.contributors[:_MOST_LINES]:
        share = f"{100 * part.share:.1f} %"
        table.add_row(part.label, part.kind, f"{part.count:,}", time_text(part.ns), share)
    _say_more(table, len(summary.contributors) - _MOST_LINES, "line")
    return table


def _memory(summary: Summary) -> Table:
    table = _table("category", "size")
    for category, size in summary.fullest.at_peak.items():
        table.add_row(category, size_text(size))
    return table


def _say_more(table: Table, left: int, what: str) -> None:
    if left > 0:
        table.add_row(f"and {left:,} more {what}{'s' if left > 1 else ''}")
