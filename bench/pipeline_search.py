"""Searched schedules of pipelines beside the integer program, named schedules, and a time that none can beat.

`python -m bench.pipeline_search` searches in two sets of cases, all with unequal stages, messages and caps, drawn from
a fixed seed: small ones, in which the integer program follows for 20 seconds at most; and large ones, up to 8 ranks
and 32 micro-batches. It prints a table and writes `bench/results/pipeline_search.json`. Nothing of this needs a GPU.

searched: the time of a step without the integer program (period or, with a barrier at the end of a step, makespan), and
`seconds` how long the search took. program: the time of the best rows it found, program_bound: what none can beat.
named: the best named schedule that has as many stages and keeps no more. bound: the work of the busiest rank, and with
a barrier what must come before.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.record import write_record
from dmc import schedules
from dmc.errors import PlanError
from dmc.schedules.search.problem import Problem
from dmc.schedules.search.program import solve
from dmc.schedules.search.timing import timed

RESULTS = Path(__file__).parent / "results" / "pipeline_search.json"
SMALL = ((2, 1, 4), (2, 1, 6), (3, 1, 4), (3, 1, 5), (4, 1, 4), (2, 2, 2), (2, 2, 3), (3, 2, 2))
LARGE = ((4, 1, 8), (4, 1, 16), (8, 1, 16), (8, 1, 32), (4, 2, 16), (8, 2, 16), (8, 2, 32))
_DRAWS = 3
_SECONDS = 20.0


def _drawn(draw: random.Random, ranks: int, chunks: int) -> tuple[schedules.Costs, float, bool]:
    """Costs, a cap on every rank, and whether steps end with a barrier."""
    base = [draw.choice((0.8, 1.0, 1.2)) for _ in range(3)]
    # An embedding before and a head behind, and layers that do not divide evenly.
    factors = [draw.choice((1.0, 1.0, 1.3)) for _ in range(ranks * chunks)]
    times = [[each * factor for factor in factors] for each in base]
    cap = chunks * draw.choice((2, ranks, ranks, 2 * ranks - 1))
    return schedules.Costs(*times, message=draw.choice((0.0, 0.1, 0.3))), cap, draw.random() < 0.5


def measure(draw: random.Random, ranks: int, chunks: int, microbatches: int, with_program: bool) -> dict[str, Any]:
    """One case, searched and, if small, solved."""
    costs, cap, barrier = _drawn(draw, ranks, chunks)
    begin = time.perf_counter()
    effort = schedules.Effort(program=0)
    table = schedules.searched(costs, ranks, microbatches, cap, barrier=barrier, effort=effort)
    seconds = time.perf_counter() - begin
    problem = Problem(costs, table.ranks_of, microbatches, (cap,) * ranks, barrier)
    found: dict[str, Any] = {
        "ranks": ranks,
        "chunks": chunks,
        "microbatches": microbatches,
        "cap": cap,
        "barrier": barrier,
        "searched": _time(table, costs, barrier),
        "seconds": round(seconds, 2),
        "named": min(_named(ranks, chunks, microbatches, costs, cap, barrier), default=None),
        "bound": problem.bound,
    }
    if with_program:
        solved = solve(problem, problem.rows_of(table), nodes=1_000_000, seconds=_SECONDS)
        best = timed(problem, solved.rows)
        found |= {"program": best.time if best else None, "program_bound": solved.bound}
    return found


def _named(
    ranks: int, chunks: int, microbatches: int, costs: schedules.Costs, cap: float, barrier: bool
) -> list[float]:
    times: list[float] = []
    for name in schedules.NAMES:
        with contextlib.suppress(PlanError):
            table = schedules.schedule(name, ranks, microbatches, chunks)
            if max(schedules.play(table, costs).peak) <= cap:
                times.append(_time(table, costs, barrier))
    return times


def _time(table: schedules.Table, costs: schedules.Costs, barrier: bool) -> float:
    played = schedules.play(table, costs)
    return played.makespan if barrier else played.period


def _show(cases: list[dict[str, Any]]) -> None:
    table = Table(
        "ranks", "chunks", "micro", "cap", "barrier", "searched", "s", "program", "its bound", "named", "bound"
    )
    for each in cases:
        numbers = (each.get(key) for key in ("program", "program_bound", "named", "bound"))
        table.add_row(
            *(str(each[key]) for key in ("ranks", "chunks", "microbatches", "cap", "barrier")),
            *(f"{each['searched']:.2f}", f"{each['seconds']:.1f}"),
            *("" if number is None else f"{number / each['searched'] - 1:+.2%}" for number in numbers),
        )
    Console(width=120).print(table)


def main() -> None:
    """Measures all cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    draw = random.Random(0)
    cases = [measure(draw, *size, with_program=True) for size in SMALL for _ in range(_DRAWS)]
    cases += [measure(draw, *size, with_program=False) for size in LARGE for _ in range(_DRAWS)]
    write_record(options.out, {"cases": cases})
    _show(cases)


if __name__ == "__main__":
    main()
