"""`dmc simulate step.dmc --machine h200x4`: the predicted time of a step on a machine, and what it waits for."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dmc.cli.programs import add_option, read_program
from dmc.cli.simulate_notes import notes
from dmc.errors import ArtifactError
from dmc.machine import machine, machine_names
from dmc.program.tuning import Table
from dmc.runtime.reports.report import columns
from dmc.simulator import Simulation, simulate
from dmc.simulator.summary import summarise
from dmc.simulator.timeline import timeline_page
from dmc.simulator.trace import trace

# Columns without a terminal.
_WIDE = 160
_MOST_SHOWN = 8


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser(
        "simulate", help="predict the time of a planned step on a machine", description=__doc__
    )
    parser.add_argument("file", metavar="FILE", help="a .dmc file, of any IREE version")
    names = f"{', '.join(machine_names())}, or a file of dmc calibrate"
    parser.add_argument("--machine", metavar="MACHINE", required=True, help=f"the machine to simulate: {names}")
    tuned = "a table that dmc tune made on such a device: times of kernels"
    parser.add_argument("--tuning", type=Path, metavar="FILE", help=tuned)
    more = (
        "simulate this many ranks: groups along the data axis grow, and so do the times of their collectives; what "
        "each rank computes, copies and holds stays as planned, even where ZeRO would split it further"
    )
    parser.add_argument("--ranks", type=int, metavar="N", help=more)
    parser.add_argument("--axis", metavar="NAME", help="the mesh axis that grows (default: dp)")
    parser.add_argument(
        "--show",
        type=_ranks,
        metavar="R,R",
        help=f"ranks in the trace and on the page (default: first {_MOST_SHOWN} of those simulated)",
    )
    parser.add_argument("--trace", type=Path, metavar="JSON", help="write a trace for ui.perfetto.dev")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with the timeline and memory over time")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_option(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises ArtifactError, and DmcError where the machine cannot run the step."""
    artifact = read_program(arguments.file, arguments.program)
    table = None if arguments.tuning is None else Table.read(arguments.tuning)
    # Equivalent ranks are simulated once where not all can be shown.
    fold = arguments.show is None and artifact.job.size > _MOST_SHOWN
    simulation = simulate(artifact.job, machine(arguments.machine, table), arguments.ranks, arguments.axis, fold=fold)
    whys = artifact.ledger.whys()
    shown = arguments.show or list(simulation.programs)[:_MOST_SHOWN]
    if unknown := sorted(set(shown) - set(simulation.programs)):
        raise ArtifactError(f"rank {unknown[0]}", *_not_played(unknown[0], simulation))
    if arguments.trace:
        arguments.trace.write_text(trace(simulation, shown, whys), encoding="utf-8")
    if arguments.html:
        page = timeline_page(simulation, shown, Path(arguments.file).stem, whys)
        arguments.html.write_text(page, encoding="utf-8")
    summary, said = summarise(simulation), list(notes(artifact, simulation))
    if arguments.json:
        print(json.dumps({**summary.to_json(), "notes": said}, indent=2))
    else:
        # Rich takes a while to load, and only this needs it.
        from dmc.cli.simulate_tables import print_summary

        print_summary(summary, said, columns(_WIDE))
    return 0


def _not_played(rank: int, simulation: Simulation) -> tuple[str, str]:
    """Why a rank cannot be shown, and which can."""
    played = list(simulation.programs)
    shown = f"--show takes {_list(played)}"
    if 0 <= rank < simulation.ranks:
        return f"was not simulated: of {simulation.ranks:,} ranks, equivalent ones are simulated once", shown
    return f"does not exist among {simulation.ranks:,} ranks", shown


def _list(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f", …, {ranks[-1]}" if len(ranks) > 8 else "")


def _ranks(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of ranks, such as 0,3") from None
