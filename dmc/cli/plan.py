"""`dmc plan step.dmc`: the commands of a planned step, one per line; for two files, how their plans differ.

`dmc plan --search my_module:make_step --machine h100x4`: the fastest plan for a machine, by simulation.

`dmc plan --explain my_module:make_step`: what each line of its plan changes, by simulation.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dmc.cli import plan_explain, plan_search
from dmc.cli.plan_difference import differences, frames
from dmc.cli.plan_schedule import schedule_text
from dmc.cli.programs import add_option, read_program
from dmc.errors import DmcError
from dmc.program import Job
from dmc.runtime.files.artifact import TRAINING
from dmc.runtime.reports.plan.lines import Line, lines_of
from dmc.runtime.reports.plan.report import PlanReport
from dmc.runtime.reports.report import columns

# Commands shown on either side of the one given to `--around`.
_NEIGHBOURS = 5


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("plan", help="show the commands of a planned step", description=__doc__)
    files = "a .dmc file, or MLIR in form planned (- for standard input); two files show how their plans differ"
    parser.add_argument("files", metavar="FILE", nargs="*", help=files)
    parser.add_argument("--rank", type=int, default=0, metavar="R", help="the rank whose program to show (default: 0)")
    parser.add_argument("--lane", metavar="L", help="show only commands of this lane")
    parser.add_argument(
        "--around", type=int, metavar="N", help=f"show command N and {_NEIGHBOURS} on either side of it"
    )
    parser.add_argument("--label", metavar="PATTERN", help="show only commands whose label matches, as in 'h.*.attn*'")
    parser.add_argument(
        "--places", action="store_true", help="for two plans, also show commands that differ only in offsets"
    )
    parser.add_argument("--schedule", action="store_true", help="show what all ranks of a pipeline do, in order")
    parser.add_argument("--bytes", action="store_true", help="print the sizes of memories in bytes")
    add_option(parser)
    plan_search.add_options(parser)
    plan_explain.add_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError for a file without a plan, and for a rank or lane that does not exist."""
    if arguments.explain is not None:
        return plan_explain.run(arguments)
    if arguments.search is not None:
        return plan_search.run(arguments)
    if arguments.why or arguments.why_not:
        raise DmcError("dmc plan --why", "is about a plan that is searched for", "pass --search module:function too")
    if len(arguments.files) not in (1, 2):
        hint = "pass one to show it, two to compare them, or --search module:function"
        raise DmcError("dmc plan", f"got {len(arguments.files)} files", hint)
    jobs = [_job(file, arguments.program) for file in arguments.files]
    if arguments.schedule:
        if (arguments.lane, arguments.label, arguments.around, arguments.places) != (None, None, None, False):
            raise DmcError(
                "--schedule", "shows the actions of all ranks", "leave --lane, --label, --around, --places out"
            )
        print("\n\n".join(schedule_text(file, job) for file, job in zip(arguments.files, jobs, strict=True)))
        return 0
    for file, job in zip(arguments.files, jobs, strict=True):
        _check(file, job, arguments.rank, arguments.lane)
    print(_compared(jobs[0], jobs[1], arguments) if len(jobs) == 2 else _shown(jobs[0], arguments))
    return 0


def _shown(job: Job, arguments: argparse.Namespace) -> str:
    lines = _chosen(lines_of(job, arguments.rank), arguments)
    return PlanReport(job, arguments.rank, tuple(lines)).text(exact=arguments.bytes)


def _compared(old: Job, new: Job, arguments: argparse.Namespace) -> str:
    every, around = differences(old, new, arguments.rank), list(frames(old, new, arguments.rank, arguments.bytes))
    if not every and not around:
        return "the plans are equal"
    moved = sum(each.place_only for each in every) // 2
    if moved and not arguments.places:
        around.append(f"{moved:,} command{'s' * (moved > 1)} differing only in offsets (--places shows them)")
        every = [each for each in every if not each.place_only]
    chosen = set(_chosen([each.line for each in every], arguments))
    rows = [(f"{each.mark} {each.line.number}", each.line) for each in every if each.line in chosen]
    return "\n\n".join(part for part in ("\n".join(around), _table(rows) if rows else "") if part)


def _table(rows: Iterable[tuple[str, Line]]) -> str:
    # Rich takes a while to load, and only this command needs it.
    from dmc.runtime.reports.plan.table import table
    from dmc.runtime.reports.tables import as_text

    return as_text([table(rows)], columns())


def _chosen(lines: Sequence[Line], arguments: argparse.Namespace) -> list[Line]:
    """The lines that the options select."""
    if arguments.around is not None:
        lines = _neighbours(lines, arguments.around)
    if arguments.lane is not None:
        lines = [line for line in lines if line.lane == arguments.lane]
    if arguments.label is not None:
        lines = [line for line in lines if fnmatch.fnmatchcase(line.label, arguments.label)]
    return list(lines)


def _neighbours(lines: Sequence[Line], number: int) -> Sequence[Line]:
    """The last line that begins at or before the command, and its neighbours."""
    at = max((i for i, line in enumerate(lines) if line.number <= number), default=None)
    if at is None or number < 0:
        raise DmcError(f"--around {number}", "is before the first command", "commands count from 0")
    return lines[max(at - _NEIGHBOURS, 0) : at + _NEIGHBOURS + 1]


def _check(file: str, job: Job, rank: int, lane: str | None) -> None:
    if not 0 <= rank < job.size:
        raise DmcError(file, f"has no rank {rank}", f"its ranks are 0 to {job.size - 1}")
    lanes = [each.name for each in job.program(rank).lanes]
    if lane is not None and lane not in lanes:
        raise DmcError(file, f"has no lane '{lane}'", f"its lanes are {', '.join(lanes)}")


def _job(file: str, program: str) -> Job:
    if file == "-" or Path(file).suffix == ".mlir":
        if program != TRAINING:
            raise DmcError(file, f"has no program '{program}'", "MLIR in form planned is one program")
        # MLIR takes a while to load; .dmc files do not need it.
        from dmc.cli.mlir_source import job_of_text
        from dmc.cli.mlir_text import text_of

        return job_of_text(text_of(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes(), file), file)
    return read_program(file, program).job
