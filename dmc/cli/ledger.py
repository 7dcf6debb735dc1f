"""`dmc ledger step.dmc`: the communication between ranks of a compiled step, and its reasons."""

from __future__ import annotations

import argparse
import json
from typing import Any

from dmc.cli.programs import add_option, read_program


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("ledger", help="show every movement between ranks in a step", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a .dmc file, of any IREE version")
    parser.add_argument("--all", action="store_true", help="print a line per movement, with its line of Python")
    parser.add_argument("--bytes", action="store_true", help="print sizes in bytes")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_option(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises ArtifactError."""
    ledger = read_program(arguments.file, arguments.program).ledger
    if arguments.json:
        print(json.dumps(ledger.to_json(), indent=2))
    else:
        print(ledger.table(arguments.all, exact=arguments.bytes))
    return 0
