"""`--program NAME`: which program of a file a command shows, where it holds several."""

from __future__ import annotations

import argparse
import os

from dmc.runtime.files.artifact import TRAINING, Artifact


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option to a command."""
    text = f"the program to show, such as evaluation or {TRAINING}-1 (default: {TRAINING}, that of the first example)"
    parser.add_argument("--program", default=TRAINING, metavar="NAME", help=text)


def read_program(file: str | os.PathLike[str], name: str) -> Artifact:
    """That program of a file; raises ArtifactError."""
    return Artifact.read(file, to_run=False).program(name, str(file))
