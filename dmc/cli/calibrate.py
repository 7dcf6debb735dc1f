"""`dmc calibrate -o machine.json`: measures this machine in under two minutes, for `--machine` and `dmc simulate`.

On a GPU: the rates of products, the bandwidth of memory and copies, and the nodes of a graph; of compiled steps of one
rank what each family of their kernels attains. `torchrun --nproc-per-node 2 -m dmc calibrate` also measures what
movements between the GPUs take, and how much they slow down kernels.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from dmc.machine import cost_table_hash, write_machine
from dmc.runtime.world.launch import world_from_environment


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("calibrate", help="measure this machine for predictions", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="compiled steps of one rank, to be timed")
    parser.add_argument("-o", "--output", type=Path, default=Path("machine.json"), metavar="JSON", help="what to write")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    # Only here is a GPU needed.
    from dmc.calibration import calibrate_gpu

    world = world_from_environment(os.environ)
    found = calibrate_gpu(world, arguments.files)
    if world is None or world.rank == 0:
        write_machine(found, arguments.output)
        print(f"{arguments.output}: {found.description}; cost table {cost_table_hash(found)[:12]}")
    return 0
