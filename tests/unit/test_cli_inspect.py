"""`dmc inspect` of planned steps: what it says of their proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmc.cli.main import main
from dmc.runtime.artifact import Artifact
from dmc.runtime.versions import tool_versions
from tests.certified import certified
from tests.linear_step import MLIR, SIGNATURE, initial_state
from tests.random_jobs import random_job


def test_what_was_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, modules, job = str(tmp_path / "step.dmc"), {"step": b"code"}, random_job(0)
    certificate = certified(job, {"device": 1 << 20}, "cafe" * 16).with_code(modules, None)
    step = (SIGNATURE, "cpu", "fp32", modules, {"01-imported": MLIR}, initial_state(), tool_versions())
    Artifact(*step, job=job, certificate=certificate).write(path)
    assert main(["inspect", path]) == 0
    proven = "proven V1, V2, V3, V4, V5, V5b, V6, V7, V8, V10, V11, V12"
    line = f"{proven} of plan {job.digest()[:12]} by costs cafecafecafe, device memory at most 1.0 MB"
    assert line in capsys.readouterr().out.splitlines()
    assert main(["inspect", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["caps"] == {"device": 1 << 20}


def test_a_step_that_iree_schedules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "step.dmc")
    step = (SIGNATURE, "cpu", "fp32", {"step": b"code"}, {"01-imported": MLIR}, initial_state(), tool_versions())
    Artifact(*step).write(path)
    assert main(["inspect", path]) == 0
    assert "proven" not in capsys.readouterr().out
