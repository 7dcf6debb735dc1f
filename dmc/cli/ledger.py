"""`dmc ledger step.dmc`: what the ranks of a compiled step send each other, and why."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from typing import Any

from dmc.runtime.artifact import Artifact

# Columns where there is no terminal.
_WIDE = 250


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("ledger", help="show every movement between ranks in a step", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a .dmc file, of any IREE version")
    parser.add_argument("--all", action="store_true", help="a line for each movement and the line of Python it is from")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises ArtifactError."""
    ledger = Artifact.read(arguments.file, to_run=False).ledger
    if arguments.json:
        print(json.dumps(ledger.to_json(), indent=2))
    else:
        # Where there is no terminal, as in a pipe, nothing needs to be folded, whatever COLUMNS says.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
        print(ledger.table(arguments.all, width))
    return 0
