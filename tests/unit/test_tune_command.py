"""`dmc tune`: what it times, and the table that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dmc.cli.main import main
from dmc.program.tuning import Candidates, Choice, Table
from tests.unit.test_tuner import Device, tunable_of


def test_candidates_are_compiled_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", str(tmp_path / "step.dmc")]) == 1
    assert "hint: dmc tune --prepare" in capsys.readouterr().err


def test_steps_share_a_table_and_what_it_knows_is_not_timed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = Device({"first": 2.0, "other": 1.0})
    monkeypatch.setattr(device, "versions", lambda: {"device": "a GPU", "driver": "1"}, raising=False)
    monkeypatch.setattr("dmc.runtime.gpu.cuda_streams.open_device", lambda: device)
    kernels = {key: replace(tunable_of("first", "other"), key=key) for key in ("both", "one", "two", "known")}
    for name, keys in (("one", ("both", "one")), ("two", ("both", "two", "known"))):
        (tmp_path / f"{name}.candidates").write_bytes(Candidates(tuple(kernels[key] for key in keys), {}).to_bytes())
    known, output = tmp_path / "known.json", tmp_path / "gpu.json"
    before = Choice("doubled", "", "first", {"first": 7.0})
    Table({"known": before}, "another GPU").write(known)
    steps = [str(tmp_path / f"{name}.dmc") for name in ("one", "two")]
    assert main(["tune", *steps, "--known", str(known), "-o", str(output)]) == 0
    table = Table.read(output)
    assert (sorted(table.choices), table.device) == (["both", "known", "one", "two"], "a GPU")
    assert table.choices["known"] == before and table.choices["two"].label == "other"
    *timed, last = capsys.readouterr().out.splitlines()
    assert len(timed) == 3 and last == f"{output}: 3 kernels beside 1"
