"""A simulation in Chrome's trace event format, which ui.perfetto.dev and chrome://tracing open.

Ranks are processes and lanes threads; times are in microseconds. An arrow leads to each command from its cause on
another lane. Format: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dmc.program.describe import bytes_of, flops_of, full_title_of, kind_of, name_of
from dmc.simulator.critical_path import critical_path
from dmc.simulator.describe import asked_for_by, began_after
from dmc.simulator.memory import memory_over_time
from dmc.simulator.simulation import Simulation, Span

_US = 1e-3
_Event = dict[str, Any]


def trace(simulation: Simulation, ranks: Sequence[int] | None = None, whys: Mapping[str, str] = {}) -> str:
    """The trace as JSON text, for these ranks, or all simulated ones.

    whys: what required the movement of a tensor, by the tensor's label. Equal simulations give equal text.
    """
    shown = list(simulation.programs) if ranks is None else list(ranks)
    critical = {span.index for span in critical_path(simulation)}
    events: list[_Event] = []
    for rank in shown:
        events += _names(simulation, rank)
        events += (_complete(simulation, span, whys, span.index in critical) for span in simulation.by_rank[rank])
        events += _memory(simulation, rank)
    for rank in shown:
        events += _arrows(simulation, rank, set(shown))
    head = {"machine": simulation.machine.name, "ranks": simulation.ranks, "step_us": simulation.step_ns * _US}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": head}, ensure_ascii=False)


def _names(simulation: Simulation, rank: int) -> Iterator[_Event]:
    yield {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}
    for number, lane in enumerate(simulation.programs[rank].lanes):
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": number, "args": {"name": lane.name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": rank, "tid": number, "args": {"sort_index": number}}


def _complete(simulation: Simulation, span: Span, whys: Mapping[str, str], critical: bool) -> _Event:
    work = simulation.work(span)
    arguments = {
        "module": work.label,
        "what": name_of(work),
        "bytes": bytes_of(simulation.job, work),
        "flops": flops_of(simulation.job, work),
        "reason": f"began {began_after(simulation, span)}",
        "asked for by": asked_for_by(work, whys),
        "waited for members (us)": (span.start - span.arrived) * _US,
        "critical": critical,
        "command": span.command,
    }
    where = {"pid": span.rank, "tid": span.lane, "ts": span.start * _US, "dur": (span.end - span.start) * _US}
    return {"ph": "X", "name": full_title_of(work), "cat": kind_of(simulation.job, work), **where, "args": arguments}


def _memory(simulation: Simulation, rank: int) -> Iterator[_Event]:
    profile = memory_over_time(simulation, rank)
    for time, live in zip(profile.times, profile.live, strict=True):
        sizes = dict(zip(profile.names, live, strict=True))
        if sizes:
            yield {"ph": "C", "name": "device memory", "pid": rank, "ts": time * _US, "args": sizes}


def _arrows(simulation: Simulation, rank: int, shown: set[int]) -> Iterator[_Event]:
    for span in simulation.by_rank[rank]:
        cause = simulation.cause(span)
        if cause is None or cause.rank not in shown or (cause.rank, cause.lane) == (span.rank, span.lane):
            continue
        common = {"name": "released", "cat": "wait", "id": span.index}
        # The arrow starts inside the earlier span, so that it is bound to that, and not to the next one on its lane.
        leaves = (cause.start + cause.end) / 2
        yield {"ph": "s", **common, "pid": cause.rank, "tid": cause.lane, "ts": leaves * _US}
        yield {"ph": "f", "bp": "e", **common, "pid": span.rank, "tid": span.lane, "ts": span.start * _US}
