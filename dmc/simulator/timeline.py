"""A simulation as one self-contained HTML page: lanes over time, memory below, totals in tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources

from dmc.program.sizes import size_text
from dmc.simulator.simulation import Simulation
from dmc.simulator.summary import Summary, summarise
from dmc.simulator.timeline_data import timeline_data
from dmc.simulator.units import share_text, time_text

_PAGE = resources.files("dmc.simulator") / "page"
_SCRIPTS = ("timeline.js", "memory.js", "controls.js")
_MOST_RANKS = 8
_MOST_LINES = 20


def timeline_page(
    simulation: Simulation,
    ranks: Sequence[int] | None = None,
    title: str = "Training step",
    whys: Mapping[str, str] = {},
) -> str:
    """The page as text, for these ranks, or the first eight simulated ones.

    whys: what required the movement of a tensor, by the tensor's label. Equal simulations give equal text.
    """
    shown = list(simulation.programs)[:_MOST_RANKS] if ranks is None else list(ranks)
    summary = summarise(simulation)
    parts = {
        "title": escape(f"{title} on {simulation.machine.name}"),
        "lead": escape(_lead(simulation, summary, shown)),
        "figures": "\n".join(_figures(summary)),
        "tables": _tables(summary, shown),
        "style": _file("timeline.css"),
        "script": "\n".join(map(_file, _SCRIPTS)),
        "data": timeline_data(simulation, summary, shown, whys),
    }
    # In one pass, so that nothing in the data is mistaken for a placeholder.
    return re.sub(r"@(\w+)@", lambda place: parts[place[1]], _file("timeline.html"))


def _file(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8").rstrip("\n")


def _lead(simulation: Simulation, summary: Summary, shown: Sequence[int]) -> str:
    ranks = "1 rank" if summary.ranks == 1 else f"{summary.ranks:,} ranks"
    said = f"Predicted for {ranks}. The machine: {simulation.machine.description}"
    if simulation.copies > 1:
        said += f"; each rank shown represents {simulation.copies:,} equivalent ones"
    if len(shown) < summary.played:
        said += f"; {len(shown)} of {summary.played} ranks are shown"
    return f"{said}. Its cost table: {summary.costs[:12]}."


def _figures(summary: Summary) -> Iterator[str]:
    step, exposed, memory = summary.step_ns, summary.exposed, summary.fullest
    yield _figure("Step", time_text(step), f"{summary.commands:,} commands were simulated")
    for name, part in (
        ("Exposed communication", exposed.communication),
        ("Waiting for other ranks", exposed.others),
        ("Waiting for copies", exposed.copies),
    ):
        yield _figure(name, time_text(part), f"{share_text(part, step)} of the step, on rank {exposed.rank}")
    share = f"{100 * summary.communication_share:.1f} %"
    yield _figure("Communication on the critical path", share, "of the step")
    yield _figure("Peak device memory", size_text(memory.peak), f"of an arena of {size_text(memory.arena)}")


def _figure(name: str, value: str, remark: str) -> str:
    return f"    <div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"


def _tables(summary: Summary, shown: Sequence[int]) -> str:
    step = summary.step_ns
    path = [
        (each.label, each.kind, f"{each.count:,}", time_text(each.ns), f"{100 * each.share:.1f} %")
        for each in summary.contributors[:_MOST_LINES]
    ]
    left = len(summary.contributors) - len(path)
    waits = [
        (f"rank {each.rank}", *(time_text(ns) for ns in (each.busy, each.communication, each.copies, each.others)))
        for each in summary.waits
        if each.rank in shown
    ]
    lanes = [
        (f"rank {each.rank}", each.lane, time_text(each.busy), time_text(each.waiting), share_text(each.idle, step))
        for each in summary.lanes
        if each.rank in shown
    ]
    memory = [(name, size_text(size)) for name, size in summary.fullest.at_peak.items()]
    return "\n".join(
        (
            '  <div class="tables">',
            _table("Critical path", ("where", "kind", "commands", "time", "share of the step"), path, _more(left)),
            _table("What computation waits for", ("", "computes", "communication", "copies", "other ranks"), waits),
            _table("Lanes", ("", "lane", "busy", "waits for members", "idle"), lanes),
            _table(f"Device memory at the peak of rank {summary.fullest.rank}", ("category", "size"), memory),
            "  </div>",
        )
    )


def _more(left: int) -> str:
    return f"and {left:,} more" if left > 0 else ""


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], remark: str = "") -> str:
    heads = _cells("th", head, rows[0] if rows else head)
    lines = "\n".join(_cells("td", row, row) for row in rows)
    end = f"<p>{escape(remark)}</p>" if remark else ""
    table = f"<table><thead>{heads}</thead>\n<tbody>\n{lines}\n</tbody></table>"
    return f"    <section><h2>{escape(title)}</h2>{table}{end}</section>"


def _cells(tag: str, texts: Sequence[str], like: Sequence[str]) -> str:
    """A row; headers of numbers are right-aligned like the numbers."""
    classes = [' class="number"' if text[:1].isdigit() else "" for text in like]
    return (
        f"<tr>{''.join(f'<{tag}{own}>{escape(text)}</{tag}>' for own, text in zip(classes, texts, strict=True))}</tr>"
    )
