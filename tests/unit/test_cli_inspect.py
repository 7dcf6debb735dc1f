"""`dmc inspect` of planned steps: what it says of their proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmc.cli.main import main
from tests.artifacts import artifact_of
from tests.random_jobs import random_job


def test_what_was_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, job = str(tmp_path / "step.dmc"), random_job(0)
    artifact_of(job, "cafe" * 16, {"device": 1 << 20}).write(path)
    assert main(["inspect", path]) == 0
    proven = "proven V1, V2, V3, V4, V5, V5b, V6, V7, V8, V10, V11, V12"
    line = f"{proven} of plan {job.digest()[:12]} by costs cafecafecafe, device memory at most 1.0 MB"
    assert line in capsys.readouterr().out.splitlines()
    assert main(["inspect", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["caps"] == {"device": 1 << 20}
