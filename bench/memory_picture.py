"""The picture of `docs/memory.md`: what GPT-2 124M holds over a step on an H200, without a cap and under two.

`python -m bench.memory_picture` writes `docs/memory.png`. Nothing is run: these are plans (`bench/memory_caps.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.memory_caps import MACHINE, kernels_of, under_a_cap
from dmc import dialect
from dmc._mlir import ir
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.footprint import footprint
from dmc.analysis.tasks.reader import read_tasks
from dmc.analysis.tasks.timeline import timeline
from dmc.machine import machine

MODEL, SHARES = "gpt2_124m", (0.75, 0.5)
PICTURE = Path(__file__).parents[1] / "docs" / "memory.png"


def main() -> None:
    """Plans three times, and draws."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        curves = [_curve(kernels_of(MODEL, context), 0)]
        highest = max(curves[0][1])
        # Any cap divides large logits.
        text = kernels_of(MODEL, context, cap=highest)
        curves += [_curve(text, int(share * highest)) for share in SHARES]
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axis: Any = figure.subplots()
    names = ("without a cap", *(f"cap at {share:g} of that" for share in SHARES))
    for name, (times, bytes_) in zip(names, curves, strict=True):
        axis.step(times, [each / 1e9 for each in bytes_], where="post", label=f"{name}: {times[-1]:.1f} ms")
    axis.set(xlabel="ms of a step, predicted", ylabel="GB in use", xlim=(0, None), ylim=(0, None))
    axis.legend(frameon=False)
    figure.savefig(PICTURE, dpi=110, format="png")


def _curve(text: str, cap: int) -> tuple[list[float], list[int]]:
    """When kernels begin, in ms, and the bytes in use then."""
    module = under_a_cap(text, cap)
    graph = read_tasks(module, TaskCosts.of(module, machine(MACHINE)))
    times, live = timeline(graph, graph.order), footprint(graph, graph.order).live
    places = [place for place, event in enumerate(graph.order) if event >= 0 and not graph.tasks[event].is_movement]
    return [times.begin[graph.order[place]] / 1e6 for place in places], [live[place] for place in places]


if __name__ == "__main__":
    main()
