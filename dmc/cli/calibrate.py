"""`dmc calibrate -o machine.json`: measures this machine in under two minutes, for `--machine` and `dmc simulate`.

On a GPU: the rates of products, the bandwidth of memory and copies, and the nodes of a graph; of compiled steps of one
rank what each family of their kernels attains. `torchrun --nproc-per-node 2 -m dmc calibrate` also measures what
movements between the GPUs take, and how much they slow down kernels. With `--device cpu`: the rates and the memory of
this processor, and the share of them that steps attain, which are compiled for it, or given.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dmc.calibration.fits import also_tuned
from dmc.errors import DmcError
from dmc.machine import Machine, cost_table_hash, machine, write_machine
from dmc.program.tuning import Table
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.world.launch import World, world_from_environment

# Seconds after which a calibration of GPUs is ended.
_LIMIT_S = 150


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("calibrate", help="measure this machine for predictions", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="compiled steps of one rank, to be timed")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="what to measure (default: cuda)")
    parser.add_argument("-o", "--output", type=Path, default=Path("machine.json"), metavar="JSON", help="what to write")
    parser.add_argument("--tuning", type=Path, metavar="FILE", help="a table that dmc tune made here: times of kernels")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    world = world_from_environment(os.environ)
    if arguments.device == "cpu" and world is not None:
        raise DmcError(world.launcher, "starts several processes", hint="start dmc calibrate --device cpu alone")
    # Before what takes minutes.
    table = None if arguments.tuning is None else Table.read(arguments.tuning)
    found = _cpu(arguments.files) if arguments.device == "cpu" else _gpu(world, arguments.files)
    if table is not None:
        found = replace(found, device=also_tuned(found.device, table.choices))
    if world is None or world.rank == 0:
        write_machine(found, arguments.output)
        print(f"{arguments.output}: {found.description}; cost table {cost_table_hash(found)[:12]}")
    return 0


def _gpu(world: World | None, files: Sequence[Path]) -> Machine:
    # Only here is a GPU needed.
    from dmc.calibration import calibrate_gpu

    # A rank whose others are gone would wait for them on the device, and occupy it: this ends it whatever it waits for.
    faulthandler.dump_traceback_later(_LIMIT_S, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        return calibrate_gpu(world, files)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _cpu(files: Sequence[Path]) -> Machine:
    # Only here is the compiler needed.
    from dmc.calibration.cpu import measured
    from dmc.calibration.samples import samples

    given = [Artifact.read(path) for path in files]
    return measured(machine("cpu"), given or samples())
