"""A compiled step as a small file, to be carried to another machine: it leaves the parameters behind."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dmc.dtypes import dtype_of
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.step import Step
from dmc.runtime.tensors.arrays import zeros

PACKED = ".step"
_ZERO = ("parameter", "optimizer")


def write_packed(artifact: Artifact, path: Path) -> None:
    """Writes a step, which `read_packed` of the same version of dmc reads."""
    pairs = zip(artifact.signature.state, artifact.state, strict=True)
    # Buffers, such as a model's frequencies or positions, are what they are.
    kept = {spec.name: np.array(array) for spec, array in pairs if spec.role not in _ZERO}
    path.write_bytes(gzip.compress(pickle.dumps((replace(artifact, state=(), ir={}), kept)), 6))


def read_packed(path: Path, parameters: Mapping[str, np.ndarray] | None = None) -> Artifact:
    """The step with these parameters, by default of zero; the optimizer's state is zero. The proof is checked;
    unpickling trusts the file. Raises ValueError for parameters of other names.
    """
    loaded: tuple[Artifact, dict[str, np.ndarray]] = pickle.loads(gzip.decompress(path.read_bytes()))
    artifact, kept = loaded
    artifact.certificate.check(artifact.job, artifact.modules, artifact.code)
    specs = artifact.signature.state
    own = {spec.name for spec in specs if spec.role == "parameter"}
    if parameters is not None and set(parameters) != own:
        raise ValueError(f"{path}: has other parameters: {sorted(own ^ set(parameters))}")
    kept = {**(parameters or {}), **kept}
    state = (kept[s.name] if s.name in kept else zeros(s.shape, dtype_of(s.dtype).numpy) for s in specs)
    return replace(artifact, state=tuple(state))


def load_packed(path: Path) -> Step:
    """The step on the GPU."""
    return Step(read_packed(path), "cuda")
