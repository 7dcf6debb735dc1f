"""`dmc inspect` of planned steps: what it says of their proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmc.cli.main import main
from dmc.program.certificate import PROPERTIES
from tests.artifacts import artifact_of
from tests.random_jobs import random_job


def test_what_was_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, job = str(tmp_path / "step.dmc"), random_job(0)
    artifact_of(job, "cafe" * 16, {"device": 1 << 20}).write(path)
    assert main(["inspect", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = f"proven of plan {job.digest()[:12]} by costs cafecafecafe, device memory at most 1.05 MB:"
    said = lines[lines.index(head) + 1 :][: len(PROPERTIES) + 8]
    assert said[0] == "  V1   every event is recorded once, before any command awaits it"
    assert "  V5b  movements that share two ranks never run at the same time" in said
    assert "  V12  kernels leave their operands unchanged, write their results completely" in "".join(said)
    assert main(["inspect", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["caps"] == {"device": 1 << 20}
