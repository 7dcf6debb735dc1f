"""Steps as small files: what a benchmark carries to another machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.packed import read_packed, write_packed
from dmc.dtypes import dtype_of
from dmc.errors import ArtifactError
from tests.artifacts import artifact_of
from tests.linear_step import SIGNATURE
from tests.random_jobs import random_job


def test_a_packed_step_is_the_step_with_parameters_of_zero(tmp_path: Path) -> None:
    artifact = artifact_of()
    narrow = tuple(replace(spec, dtype="bf16") if spec.name == "weight" else spec for spec in SIGNATURE.state)
    artifact = replace(artifact, signature=replace(SIGNATURE, state=narrow))
    state = tuple(np.ones(spec.shape, dtype_of(spec.dtype).numpy) for spec in narrow)
    write_packed(replace(artifact, state=state), tmp_path / "a.step")
    found = read_packed(tmp_path / "a.step")
    assert (found.job, found.signature, dict(found.modules)) == (artifact.job, artifact.signature, artifact.modules)
    for spec, before, after in zip(artifact.signature.state, state, found.state, strict=True):
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        assert np.array_equal(after, before) == (spec.role not in ("parameter", "optimizer")), spec.name
        assert after.any() == (spec.role not in ("parameter", "optimizer")), spec.name


def test_parameters_are_given_where_it_is_unpacked(tmp_path: Path) -> None:
    write_packed(artifact_of(), tmp_path / "a.step")
    specs = {spec.name: spec for spec in SIGNATURE.state}
    own = [name for name, spec in specs.items() if spec.role == "parameter"]
    given = {name: np.full(specs[name].shape, i + 1.0, np.float32) for i, name in enumerate(own)}
    found = read_packed(tmp_path / "a.step", given)
    state = dict(zip(specs, found.state, strict=True))
    assert all(np.array_equal(state[name], given[name]) for name in own)
    assert not any(state[name].any() for name in specs if specs[name].role == "optimizer")
    with pytest.raises(ValueError, match=r"other parameters: \['another'\]"):
        read_packed(tmp_path / "a.step", {**given, "another": given[own[0]]})


def test_a_packed_step_that_was_not_proven_is_refused(tmp_path: Path) -> None:
    write_packed(replace(artifact_of(), job=random_job(1)), tmp_path / "a.step")
    with pytest.raises(ArtifactError, match="the certificate: belongs to job"):
        read_packed(tmp_path / "a.step")
