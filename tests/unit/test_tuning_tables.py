"""The files that hold what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmc.errors import ArtifactError
from dmc.machine import machine
from dmc.program.tuning import Choice, Table, tables


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    with pytest.raises(ArtifactError, match="holds no tuning table"):
        Table.read(path)
    Table({"key": Choice("k", "", "fast", {"fast": 1.0})}, "a GPU").write(path)
    assert Table.read(path).choices["key"].label == "fast"
    text = json.loads(path.read_text())
    path.write_text(json.dumps(text).replace('"label": "fast"', '"label": "slow"'))
    with pytest.raises(ArtifactError, match=r"holds no tuning table .*'slow' was not measured"):
        Table.read(path)
    for other, fact in (({"schema": 99}, "is of schema 99"), ({"architecture": "sm_80"}, "for sm_80, expected")):
        path.write_text(json.dumps({**text, **other}))
        with pytest.raises(ArtifactError, match=fact):
            Table.read(path)


def test_choices_of_the_later_table_go_first() -> None:
    ours, users = (Choice("k", "", label, {label: 1.0}) for label in ("ours", "users"))
    joined = Table({"both": ours, "one": ours}).joined(Table({"both": users, "other": users}))
    assert joined.choices == {"both": users, "one": ours, "other": users}


def test_a_table_gives_the_times_of_its_kernels_on_its_own_device() -> None:
    choice = Choice("matmul_0", "8x8xf32 -> 8x8xf32", "fast", {"fast": 5.0, "slow": 9.0})
    plain = machine("h100x4")
    tuned = machine("h100x4", Table({"key": choice}, "NVIDIA H100 80GB HBM3")).device
    assert tuned.kernels[choice.key].ns == 5e3 * plain.device.sustained.factor
    assert choice.key not in plain.device.kernels
    assert machine("h100x4", Table({"key": choice}, "NVIDIA H200")) == plain


def test_the_tables_that_come_with_dmc_hold_what_was_measured() -> None:
    assert list(tables()) == ["h100", "h200"]
    for choice in (choice for table in tables().values() for choice in table.choices.values()):
        # Of those that take long, one near the fastest may be faster under load.
        least = min(choice.us.values())
        assert choice.us[choice.label] <= (1.1 if least >= 20.0 else 1.03) * least, choice
