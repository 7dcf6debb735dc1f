"""Predicted beside measured times as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from dmc.program.labels import short
from dmc.program.profile import Profile
from dmc.simulator.comparison import Comparison, Row, total
from dmc.simulator.units import time_text


def print_comparison(found: Comparison, profile: Profile, most: int, width: int) -> None:
    """Prints the step, the lanes, and of kernels and movements the `most` that are off most."""
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    step = found.step
    figures = f"predicted {time_text(step.predicted)}, measured {time_text(step.measured)} ({step.error:+.1%})"
    console.print(f"step on {step.by}: {figures}", style="bold")
    if profile.steps_ns:
        console.print(f"in training, from step to step: {time_text(median(profile.steps_ns))} on {profile.device}")
    if not profile.commands:
        console.print("note: single commands are timed on a GPU only", style="yellow")
        return
    shown, rest = found.commands[:most], found.commands[most:]
    for title, rows in (("Lanes, busy", found.lanes), ("Kernels and movements, those that are off most first", shown)):
        console.print()
        console.print(title, style="bold")
        console.print(_table(rows, () if rows is found.lanes else rest))


def _table(rows: Iterable[Row], rest: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(("what", "by", "where", "commands", "predicted", "measured", "off", "error")):
        table.add_column(column, justify="left" if number < 3 else "right", overflow="fold")
    for row in rows:
        _add(table, row)
    if rest:
        _add(table, total(rest))
    return table


def _add(table: Table, row: Row) -> None:
    off = f"{'-' if row.off < 0 else '+'}{time_text(abs(row.off))}"
    times = (time_text(row.predicted), time_text(row.measured))
    table.add_row(row.name, row.by, short(row.label), f"{row.count:,}", *times, off, f"{row.error:+.0%}")
