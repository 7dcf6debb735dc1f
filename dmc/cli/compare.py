"""`dmc compare step.dmc run.json`: what the simulator predicts beside what `dmc run --profile run.json` measured."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dmc.machine import machine, machine_names, machine_of
from dmc.program.profile import Profile
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.reports.report import columns
from dmc.simulator import simulate
from dmc.simulator.comparison import both, compare

# Columns without a terminal.
_WIDE = 160


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("compare", help="compare predicted with measured times", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a .dmc file")
    parser.add_argument("profile", type=Path, metavar="JSON", help="what dmc run --profile wrote for this file")
    names = f"{', '.join(machine_names())}, or a file of dmc calibrate"
    parser.add_argument("--machine", metavar="MACHINE", help=f"by default the machine of the profile; one of {names}")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace with both for ui.perfetto.dev")
    parser.add_argument("--rows", type=int, default=20, metavar="N", help="kernels and movements to show (default: 20)")
    parser.add_argument("--json", action="store_true", help="print all rows as JSON")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    artifact, profile = Artifact.read(arguments.file, to_run=False), Profile.read(arguments.profile)
    chosen = machine(arguments.machine or _machine_of(profile))
    simulation = simulate(artifact.job, chosen)
    found = compare(simulation, profile)
    if arguments.trace:
        arguments.trace.write_text(both(simulation, profile), encoding="utf-8")
    if arguments.json:
        print(json.dumps({"machine": chosen.name, **asdict(found)}, indent=2))
    else:
        # Rich takes a while to load, and only this needs it.
        from dmc.cli.compare_tables import print_comparison

        print_comparison(found, profile, arguments.rows, columns(_WIDE))
    return 0


def _machine_of(profile: Profile) -> str:
    # Only GPUs have a clock.
    return "cpu" if profile.device_ns is None else machine_of(profile.device, profile.ranks)
