"""`dmc memory step.dmc`: the memory that a step needs, its uses, and where the peak is; nothing runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dmc.cli.programs import add_option, read_program
from dmc.runtime.reports.memory.report import report


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("memory", help="show the memory that a planned step needs", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a .dmc file, of any IREE version")
    parser.add_argument("--bytes", action="store_true", help="print sizes in bytes")
    parser.add_argument("--plot", metavar="PNG", help="write a plot of memory over the step, named *.png")
    parser.add_argument("--html", metavar="FILE", help="write a page with the plot and the live buffers at the peak")
    add_option(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises ArtifactError."""
    # Rich takes a while to load, and only this command needs it.
    from dmc.runtime.reports.memory.plot import page, plot

    made = report(read_program(arguments.file, arguments.program).job)
    if arguments.plot:
        plot(made, arguments.plot)
    if arguments.html:
        Path(arguments.html).write_text(page(made), encoding="utf-8")
    print(made.text(exact=arguments.bytes))
    return 0
