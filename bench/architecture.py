"""The picture of README: from a training step in PyTorch to a file, and what runs it.

python -m bench.architecture      # writes docs/architecture.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from dmc.pipeline import STAGES

PATH = Path(__file__).resolve().parents[1] / "docs" / "architecture.svg"
STYLE: Any = {"svg.hashsalt": "dmc", "font.family": "DejaVu Sans"}
WIDTH, HEIGHT = 10.0, 3.5
INK, PAPER = "#1f2937", "#ffffff"
FORM, GIVEN, RUN, SAID = "#dbeafe", "#fef3c7", "#dcfce7", "#f3f4f6"
_TEXT: dict[str, Any] = {"ha": "center", "va": "center", "size": 8.5, "color": INK}

# What each form of the module says, by name.
_FORMS = {
    "imported": "forward, loss,\nbackward, clipping,\noptimizer as linalg",
    "placed": "programs of ranks:\nplacement, then\ncollectives",
    "scheduled": "kernels, their order,\nwhat is kept, moved\nor computed again",
    "planned": "queues, events,\naddresses: all that\nruns, and when",
}
_GIVEN = ("model", "loss", "optimizer", "example batch", "plan over ranks")
_RUNS = ("CPU: all ranks\nin one process", "GPU: one CUDA\ngraph per rank")
_KNOWN = (
    "no deadlock,\nno race: proven",
    "memory:\nevery byte",
    "time, on any\nmachine: predicted",
    "numbers:\nas eager's",
)
_FILE = "one file of code,\nplan and state, which\nneeds no PyTorch,\nno compiler"
# Columns, and the two rows.
_LEFT, _STEP, _BOX = 0.1, 1.66, 1.46
_UPPER, _LOWER = (1.75, 1.6), (0.25, 0.62)


def picture() -> Figure:
    """What goes in, the forms in order, the file, what runs it, and what is known of it before."""
    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.axis("off")
    forms = [(stage.form.name, FORM, _FORMS[stage.form.name]) for stage in STAGES]
    columns = [("PyTorch", GIVEN, "\n".join(_GIVEN)), *forms, ("step.dmc", RUN, _FILE)]
    edges = [_LEFT + _STEP * index for index in range(len(columns))]
    middle = _UPPER[0] + _UPPER[1] / 2
    for x, (title, color, text) in zip(edges, columns, strict=True):
        _box(axes, (x, _UPPER[0], _BOX, _UPPER[1]), color, title, text)
    for x in edges[1:]:
        _arrow(axes, (x - _STEP + _BOX, middle), (x, middle))
    for x, text in zip(edges[1:], _KNOWN, strict=False):
        _note(axes, (x, _LOWER[0], _BOX, _LOWER[1]), SAID, text)
    axes.text((edges[1] + edges[4] + _BOX) / 2, 1.5, "one MLIR module, verified in each form", **_TEXT)
    axes.text((edges[1] + edges[4] + _BOX) / 2, 1.08, "known before it runs", style="italic", **_TEXT)
    for index, text in enumerate(_RUNS):
        _note(axes, (edges[-1], _LOWER[0] + 0.7 * (1 - index), _BOX, _LOWER[1]), RUN, text)
    _arrow(axes, (edges[-1] + _BOX / 2, _UPPER[0]), (edges[-1] + _BOX / 2, 1.57))
    return figure


def _box(axes: Any, box: tuple[float, float, float, float], color: str, title: str, text: str) -> None:
    x, y, width, height = box
    _frame(axes, box, color)
    axes.text(x + width / 2, y + height - 0.2, title, ha="center", va="center", size=10, weight="bold", color=INK)
    axes.text(x + width / 2, y + (height - 0.3) / 2, text, **_TEXT)


def _note(axes: Any, box: tuple[float, float, float, float], color: str, text: str) -> None:
    x, y, width, height = box
    _frame(axes, box, color)
    axes.text(x + width / 2, y + height / 2, text, **_TEXT)


def _frame(axes: Any, box: tuple[float, float, float, float], color: str) -> None:
    x, y, width, height = box
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=color, edgecolor=INK, linewidth=0.8))


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color=INK, linewidth=0.9))


def main() -> None:
    """Writes the picture, with the same bytes each time."""
    with mpl.rc_context(STYLE):
        FigureCanvasSVG(picture()).print_svg(PATH, metadata={"Date": None})


if __name__ == "__main__":
    main()
