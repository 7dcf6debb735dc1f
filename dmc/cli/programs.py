"""`--program NAME`: which program of a file a command shows, where it holds several."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from dmc.errors import ArtifactError
from dmc.runtime.artifact import TRAINING, Artifact


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option to a command."""
    text = f"the program to show, such as evaluation or {TRAINING}-1 (default: {TRAINING}, that of the first example)"
    parser.add_argument("--program", default=TRAINING, metavar="NAME", help=text)


def read_program(file: str | os.PathLike[str], name: str) -> Artifact:
    """That program of a file; raises ArtifactError."""
    return program_of(Artifact.read(file, to_run=False), name, file)


def program_of(artifact: Artifact, name: str, file: str | os.PathLike[str]) -> Artifact:
    """The program of this name, with the state. Raises ArtifactError where there is none."""
    if name == TRAINING:
        return artifact
    if name not in artifact.programs:
        raise ArtifactError(str(file), f"has no program '{name}'", hint=f"it has {', '.join(names_of(artifact))}")
    return replace(artifact.programs[name], state=artifact.state)


def names_of(artifact: Artifact) -> list[str]:
    """The names of all programs."""
    return [TRAINING, *artifact.programs]
