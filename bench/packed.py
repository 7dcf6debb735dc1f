"""A compiled step as a small file, to be carried to another machine: without its state, which is zero there."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np

from dmc.runtime.artifact import Artifact
from dmc.runtime.dtypes import dtype_of
from dmc.runtime.step import Step

PACKED = ".step"


def write_packed(artifact: Artifact, path: Path) -> None:
    """Writes a step, which `read_packed` of the same version of dmc reads."""
    path.write_bytes(gzip.compress(pickle.dumps(replace(artifact, state=(), ir={})), 6))


def read_packed(path: Path) -> Artifact:
    """The step with a state of zeros. The proof is checked; unpickling trusts the file."""
    artifact: Artifact = pickle.loads(gzip.decompress(path.read_bytes()))
    artifact.certificate.check(artifact.job, artifact.modules, artifact.code)
    state = (np.zeros(spec.shape, dtype_of(spec.dtype).numpy) for spec in artifact.signature.state)
    return replace(artifact, state=tuple(state))


def load_packed(path: Path) -> Step:
    """The step on the GPU."""
    return Step(read_packed(path), "cuda")


def write_candidates(artifact: Artifact, path: Path) -> None:
    """Compiles what `dmc tune` times for a step: the candidates for its kernels."""
    from dmc import dialect
    from dmc._mlir import ir
    from dmc.forms import PLANNED
    from dmc.lowering.candidates import candidates_of
    from dmc.pipeline import stem

    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        path.write_bytes(candidates_of(ir.Module.parse(artifact.ir[stem(PLANNED)]), artifact.job).to_bytes())
