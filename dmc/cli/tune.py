"""`dmc tune step.dmc`: times every way to compute the kernels of a step on this machine's GPU, and writes a table.

`dmc compile` reads the table step.tuning.json beside its output, or what --tuning names, and chooses by it. The code is
compiled before, on any machine with the compiler: `dmc tune --prepare step.dmc` writes step.candidates beside the step.
Wrong candidates are refused. Kernels that several steps have are timed once: `dmc tune a.dmc b.dmc -o gpu.tuning.json`;
with `--known gpu.tuning.json`, only those that this table lacks, which are added to it. cuDNN's attention of wide heads
is timed where cuDNN is installed: tune again without `--known` after installing it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dmc.errors import ArtifactError, DmcError
from dmc.program.sizes import size_text
from dmc.program.tuning import CANDIDATES, TUNED, Candidates, Choice, Table
from dmc.runtime.files.artifact import Artifact


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("tune", help="choose a GPU's kernels by measurement", description=__doc__)
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a .dmc file that was compiled for CUDA")
    parser.add_argument("--prepare", action="store_true", help="compile the candidates; needs no GPU")
    parser.add_argument("--known", metavar="TABLE", type=Path, help="a table of this GPU: time what it lacks")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help=f"the table; by default the first step's name with {TUNED}"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    known = Table.read(arguments.known) if arguments.known else Table()
    if arguments.prepare:
        for path in arguments.files:
            _prepare(path, known)
        return 0
    candidates = Candidates.joined([_read(path) for path in arguments.files]).without(known.choices)
    # Only here is a GPU needed.
    from dmc.runtime.gpu.cuda_streams import open_device
    from dmc.runtime.sessions.replay.tuner import tune

    device = open_device()
    choices: dict[str, Choice] = {}
    for key, choice, refused in tune(device, candidates):
        choices[key] = choice
        print(f"{choice.kernel:28} {choice.reason()}", flush=True)
        for fact in refused:
            print(f"{'':28} refused: {fact}", flush=True)
    versions = device.versions()
    output = arguments.output or arguments.files[0].with_suffix(TUNED)
    Table({**known.choices, **choices}, versions.pop("device"), versions).write(output)
    print(f"{output}: {len(choices)} kernels" + (f" beside {len(known.choices)}" if known.choices else ""))
    return 0


def _read(path: Path) -> Candidates:
    side = path.with_suffix(CANDIDATES)
    if not side.exists():
        fact = "does not exist: the code of the candidates is compiled before"
        raise ArtifactError(str(side), fact, hint=f"dmc tune --prepare {path}")
    return Candidates.from_bytes(side.read_bytes(), str(side))


def _prepare(path: Path, known: Table) -> None:
    artifact = Artifact.read(path, to_run=False)
    if artifact.code is None:
        raise DmcError(str(path), f"is for {artifact.target}", hint='compile the step with target="cuda"')
    side = path.with_suffix(CANDIDATES)
    found = write_candidates(artifact, side, known.choices)
    count = sum(len(each.candidates) for each in found.tunables)
    print(f"{side}: {count} candidates of {len(found.tunables)} kernels, {size_text(side.stat().st_size)}")


def write_candidates(artifact: Artifact, side: Path, known: Collection[str] = ()) -> Candidates:
    """Compiles the candidates for the kernels of a step without `known` keys, and writes them to a file. Raises
    ArtifactError for a step that was written without the texts of its forms."""
    from dmc import dialect
    from dmc._mlir import ir
    from dmc.cache import Cache, using
    from dmc.forms import PLANNED
    from dmc.lowering.cuda.candidates import candidates_of
    from dmc.pipeline import stem

    if stem(PLANNED) not in artifact.ir:
        hint = "write the step as it was compiled, with `ir`"
        raise ArtifactError(str(side), "cannot be made: the step was written without the texts of its forms", hint)
    with using(Cache.of(os.environ)), ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        found = candidates_of(ir.Module.parse(artifact.ir[stem(PLANNED)]), artifact.job, known)
    side.write_bytes(found.to_bytes())
    return found
