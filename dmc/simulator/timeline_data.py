"""The data of the timeline page, as JSON: columns of spans with their texts in one table, and memory over time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dmc.program.describe import bytes_of, flops_of, full_title_of, kind_of, name_of
from dmc.simulator.critical_path import critical_path
from dmc.simulator.describe import asked_for_by, began_after
from dmc.simulator.memory import Profile
from dmc.simulator.simulation import Simulation, Span
from dmc.simulator.summary import Summary

_DIGITS = 1  # of a nanosecond
_COLUMNS = "rank lane command start length waited kind title name bytes flops after asked cause critical".split()


def timeline_data(simulation: Simulation, summary: Summary, ranks: Sequence[int], whys: Mapping[str, str]) -> str:
    """The JSON for these ranks, safe inside a script element.

    ranks: with lanes, waits and memory. kinds, totals: those that occur, and their total time, largest first. spans:
    columns; `rank` and `lane` count from 0 as shown, texts are indices into `strings`, `cause` is a span's index or -1.
    Times are in nanoseconds; `waited` before `start` is time spent waiting for members.
    """
    spans = [span for rank in ranks for span in simulation.by_rank[rank]]
    totals = _totals(simulation, spans)
    strings = _Strings()
    content = {
        "step": round(simulation.step_ns, _DIGITS),
        "ranks": [_rank(simulation, summary, rank) for rank in ranks],
        "kinds": list(totals),
        "totals": [round(ns, _DIGITS) for ns in totals.values()],
        "spans": _columns(simulation, spans, ranks, list(totals), strings, whys),
        "strings": strings.all,
    }
    # A label may contain anything: "<" and line separators that scripts do not allow are escaped.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


class _Strings:
    """A table of unique texts."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The index of a text."""
        if text not in self._numbers:
            self._numbers[text] = len(self.all)
            self.all.append(text)
        return self._numbers[text]


def _totals(simulation: Simulation, spans: Iterable[Span]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for span in spans:
        kind = kind_of(simulation.job, simulation.work(span))
        totals[kind] = totals.get(kind, 0.0) + span.end - span.start
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def _rank(simulation: Simulation, summary: Summary, rank: int) -> dict[str, Any]:
    (waits,) = (each for each in summary.waits if each.rank == rank)
    (profile,) = (each for each in summary.memory if each.rank == rank)
    return {
        "rank": rank,
        "lanes": [
            {"name": each.lane, "busy": round(each.busy, _DIGITS)} for each in summary.lanes if each.rank == rank
        ],
        "waits": {name: round(getattr(waits, name), _DIGITS) for name in ("busy", "communication", "copies", "others")},
        "memory": _memory(profile),
    }


def _memory(profile: Profile) -> dict[str, Any]:
    return {
        "arena": profile.arena,
        "peak": profile.peak,
        "categories": list(profile.categories),
        "names": profile.names,
        "times": [round(time, _DIGITS) for time in profile.times],
        "live": profile.live,
    }


def _columns(
    simulation: Simulation,
    spans: Sequence[Span],
    ranks: Sequence[int],
    kinds: Sequence[str],
    strings: _Strings,
    whys: Mapping[str, str],
) -> dict[str, list[float]]:
    critical = {span.index for span in critical_path(simulation)}
    shown = {span.index: number for number, span in enumerate(spans)}
    place = {rank: number for number, rank in enumerate(ranks)}
    code = {kind: number for number, kind in enumerate(kinds)}
    rows: list[dict[str, float]] = []
    for span in spans:
        work = simulation.work(span)
        rows.append(
            {
                "rank": place[span.rank],
                "lane": span.lane,
                "command": span.command,
                "start": round(span.start, _DIGITS),
                "length": round(span.end - span.start, _DIGITS),
                "waited": round(span.start - span.arrived, _DIGITS),
                "kind": code[kind_of(simulation.job, work)],
                "title": strings.number(full_title_of(work)),
                "name": strings.number(name_of(work)),
                "bytes": bytes_of(simulation.job, work),
                "flops": flops_of(simulation.job, work),
                "after": strings.number(began_after(simulation, span)),
                "asked": strings.number(asked_for_by(work, whys)),
                "cause": -1 if span.cause is None else shown.get(span.cause, -1),
                "critical": int(span.index in critical),
            }
        )
    return {name: [row[name] for row in rows] for name in _COLUMNS}
