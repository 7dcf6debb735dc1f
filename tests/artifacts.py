"""Files that can be shown but not run: a job, the hand-written step's signature and state, and no code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dmc.program import Job, Space
from dmc.program.certificate import ASSUMPTIONS, PROPERTIES, Certificate
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.files.container import writing
from dmc.runtime.files.versions import tool_versions
from tests.linear_step import MLIR, SIGNATURE, initial_state
from tests.random_jobs import random_job


def write_container(path: Path, manifest: dict[str, Any], members: dict[str, bytes]) -> None:
    """A file with these members, whatever they say."""
    with writing(path) as file:
        for name, data in members.items():
            file.add(name, data)
        file.end(manifest)


def artifact_of(
    job: Job | None = None, costs: str = "", caps: Mapping[Space, int] | None = None, **changes: Any
) -> Artifact:
    """One with `job`, which nothing was proven of; by default with any. changes: of further fields."""
    job = random_job(0) if job is None else job
    modules = changes.pop("modules", {"cpu": b"code"})
    certificate = Certificate(PROPERTIES, ASSUMPTIONS, job.digest(), costs, job.peaks(), dict(caps or {}))
    given: dict[str, Any] = {
        "signature": SIGNATURE,
        "target": "cpu",
        "precision": "fp32",
        "ir": {"01-imported": MLIR},
        "state": initial_state(),
        "versions": tool_versions(),
        "certificate": certificate.with_code(modules, None),
    }
    return Artifact(modules=modules, job=job, **{**given, **changes})
