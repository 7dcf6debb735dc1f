"""Memory over a step as pictures: a PNG, and a self-contained page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc.errors import DmcError
from dmc.program.categories import CATEGORIES
from dmc.program.rank_memory import RankMemory
from dmc.runtime.reports.memory.report import MemoryReport
from dmc.runtime.reports.memory.table import head, ranks_text, rows

COLOURS = {
    "parameter": "#4e79a7",
    "gradient": "#e15759",
    "optimizer": "#59a14f",
    "state": "#9c755f",
    "input": "#bab0ac",
    "output": "#79706e",
    "activation": "#f28e2b",
    "communication": "#b07aa1",
    "scratch": "#edc948",
}
_POINTS = 800  # As many points as a picture can show.
_HELD = 200
_TEMPLATE = Path(__file__).with_name("page.html")


def plot(report: MemoryReport, path: str | os.PathLike[str]) -> None:
    """Writes a PNG: for each entry of the report live bytes by category over the commands, below the arena's size.

    Raises DmcError for a path that does not end in .png, and where matplotlib is not installed.
    """
    if Path(path).suffix.lower() != ".png":
        raise DmcError(str(path), "is not the name of a PNG", hint="use the suffix .png; for a page use --html")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DmcError(str(path), "needs matplotlib", hint="pip install matplotlib, or use --html") from error
    figure = Figure(figsize=(10, 4.2 * len(report.ranks)), layout="constrained")
    axes: Any = figure.subplots(len(report.ranks), squeeze=False)
    for memory, (axis,) in zip(report.ranks, axes, strict=True):
        _draw(axis, memory)
    figure.savefig(os.fspath(path), dpi=150, format="png")


def page(report: MemoryReport) -> str:
    """An HTML page with the same picture, where hovering shows the command, and the live buffers at the peak."""
    figures = [_data(memory) for memory in report.ranks]
    return _TEMPLATE.read_text(encoding="utf-8").replace("/*DATA*/", _script(figures))


def _draw(axis: Any, memory: RankMemory) -> None:
    commands, live = sample(memory.live)
    used = [column for column, category in enumerate(CATEGORIES) if memory.most[category]]
    names = list(CATEGORIES)
    axis.stackplot(
        commands,
        [live[:, column] / 1e6 for column in used],
        labels=[CATEGORIES[names[column]] for column in used],
        colors=[COLOURS[names[column]] for column in used],
        step="post",
    )
    axis.axhline(memory.arena / 1e6, color="black", linewidth=0.8, linestyle="--", label="arena")
    axis.axvline(memory.peak_command, color="black", linewidth=0.5)
    axis.set(xlabel="command", ylabel="MB", title=ranks_text(memory.ranks), xlim=(commands[0], max(commands[-1], 1)))
    axis.set_ylim(0, max(memory.arena, 1) / 1e6 * 1.05)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def sample(live: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """At most `_POINTS` of the rows with their numbers: from each interval the one with the largest sum, to keep
    peaks."""
    total = live.sum(axis=1)
    stretches = np.array_split(np.arange(len(live)), min(_POINTS, len(live)))
    chosen = [int(stretch[total[stretch].argmax()]) for stretch in stretches]
    return chosen, live[chosen]


def _data(memory: RankMemory) -> dict[str, Any]:
    commands, live = sample(memory.live)
    alive = memory.alive(memory.peak_command)
    return {
        "title": ranks_text(memory.ranks),
        "head": head(memory),
        "arena": memory.arena,
        "peak": memory.peak_command,
        "rows": list(rows(memory)),
        "modules": memory.modules(),
        "categories": [[name, COLOURS[key]] for key, name in CATEGORIES.items()],
        "commands": commands,
        "labels": [memory.labels[command] if memory.labels else "" for command in commands],
        "live": live.tolist(),
        "held": [[each.label, CATEGORIES[each.category], each.range.length] for each in alive[:_HELD]],
        "others": [len(alive[_HELD:]), sum(each.range.length for each in alive[_HELD:])],
    }


def _script(figures: list[dict[str, Any]]) -> str:
    # Inside a script "</" would end it.
    return json.dumps(figures, ensure_ascii=False).replace("</", "<\\/")
