"""`dmc ledger step.dmc`: the communication between ranks of a compiled step, and its reasons."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from typing import Any

from dmc.cli.programs import add_option, read_program

# Columns without a terminal.
_WIDE = 250


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("ledger", help="show every movement between ranks in a step", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a .dmc file, of any IREE version")
    parser.add_argument("--all", action="store_true", help="print a line per movement, with its line of Python")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_option(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises ArtifactError."""
    ledger = read_program(arguments.file, arguments.program).ledger
    if arguments.json:
        print(json.dumps(ledger.to_json(), indent=2))
    else:
        # Without a terminal, as in a pipe, nothing needs to be wrapped, whatever COLUMNS says.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
        print(ledger.table(arguments.all, width))
    return 0
