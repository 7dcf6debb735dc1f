"""Tensors are read out of files and checkpoints without running anything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import dmc
from dmc.cli.main import main
from dmc.errors import ArtifactError, DmcError, InputError, StateError
from dmc.runtime import SavedState, load
from dmc.runtime.files.artifact import Artifact
from tests.artifacts import artifact_of
from tests.hostile import members_of, sealed, write
from tests.linear_step import SIGNATURE, initial_state
from tests.unit.test_world_checkpoint import SPECS, bits, save, state


@pytest.fixture
def file(tmp_path: Path) -> Path:
    artifact_of().write(tmp_path / "step.dmc")
    return tmp_path / "step.dmc"


def test_the_state_of_a_file(file: Path) -> None:
    saved = load(file, state_only=True)
    assert isinstance(saved, SavedState)
    assert saved.specs == SIGNATURE.state
    assert bits(list(saved.arrays)) == bits(list(initial_state()))
    assert saved.names[:2] == ["model.weight", "model.bias"]
    assert saved.steps_done == 0
    np.testing.assert_array_equal(saved.tensors["model.bias"], initial_state()[1])
    assert sorted(saved.state_dict()["optimizer"]) == ["bias.momentum", "weight.momentum"]


def test_torch_gets_tensors_of_its_own(file: Path) -> None:
    read = dmc.load(file, state_only=True).state_dict()
    weight, scale = read["model"]["weight"], read["model"]["scale"]
    assert (weight.dtype, scale.dtype) == (torch.float32, torch.bfloat16)
    np.testing.assert_array_equal(weight.numpy(), initial_state()[0])
    for tensor in (*read["model"].values(), *read["optimizer"].values()):
        tensor.add_(1)


def test_counting_steps_copies_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = dmc.load(file, state_only=True)
    monkeypatch.setattr("dmc.compiled_step._to_tensor", None)
    assert saved.steps_done == 0


def test_what_else_is_in_the_file_does_not_matter(file: Path) -> None:
    """Neither code nor plan are even unpacked, and the tools that made them may be any."""
    members = members_of(file)
    rubbish = {name: b"rubbish" for name in members if name in ("job.bin", "certificate.json", "modules/cpu.vmfb")}
    write(file, sealed({**members, **rubbish}))
    with pytest.raises(ArtifactError):
        Artifact.read(file)
    assert load(file, state_only=True).steps_done == 0


def test_nothing_that_runs_code_is_imported(file: Path) -> None:
    script = f"""
import sys
from dmc.runtime import load
load({str(file)!r}, state_only=True).state_dict()
print(*sorted({{name.split(".")[0] for name in sys.modules}} & {{"torch", "torch_mlir", "pickle", "iree"}}))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    # Numpy imports it.
    assert done.stdout.split() in ([], ["pickle"])


def test_checkpoints_of_many_ranks(tmp_path: Path) -> None:
    save(tmp_path / "kept", {1: state(1), 2: state(2)})
    for place, step in ((tmp_path / "kept", 2), (tmp_path / "kept" / "step-00000001", 1)):
        saved = load(place, state_only=True)
        assert bits(list(saved.arrays)) == bits(state(step))
        assert saved.specs == tuple(replace(spec, mutated=True) for spec in SPECS)
    with pytest.raises(StateError, match="is not a checkpoint"):
        load(tmp_path, state_only=True)


def test_a_device_is_no_part_of_a_state(file: Path) -> None:
    with pytest.raises(InputError, match="reads tensors, without a device"):
        load(file, "cpu", state_only=True)


def test_the_command_shows_and_exports(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", str(file), "--bytes"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == f"{file}: 8 tensors, 88 B, after 0 steps"
    assert "model.weight f32[3, 2] 24 B" in lines
    assert "optimizer.weight.momentum f32[3, 2] 24 B, zeros" in lines
    out = tmp_path / "out.safetensors"
    assert main(["weights", str(file), "--json", "-o", str(out)]) == 0
    report = json.loads(capsys.readouterr().out)
    exported = load_file(out)
    assert [row["name"] for row in report["tensors"]] == list(load(file, state_only=True).tensors)
    assert sorted(exported) == sorted(row["name"] for row in report["tensors"])
    assert exported["model.scale"].dtype == torch.bfloat16
    for name, array in load(file, state_only=True).tensors.items():
        assert exported[name].reshape(-1).view(torch.uint8).numpy().tobytes() == array.tobytes()
    assert main(["weights", str(file), "--model", "-o", str(out)]) == 0
    assert sorted(load_file(out)) == ["bias", "head.scale", "scale", "seen", "weight"]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
    assert main(["weights", str(file), "-o", str(tmp_path / "none" / "out.safetensors")]) == 1
    assert "out.safetensors" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "directory", "loop"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "step.dmc"
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            listening.bind(str(path))
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "directory":
            path.mkdir()
        else:
            path.symlink_to(path)
        for read in (Artifact.read, lambda path: load(path, state_only=True)):
            with pytest.raises((DmcError, OSError), match=r"step\.dmc"):
                read(path)


@pytest.mark.parametrize("name", ["manifest.json", "rank-00000.safetensors"])
def test_a_pipe_in_a_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    save(tmp_path, {1: state(1)})
    place = tmp_path / "step-00000001" / name
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(StateError, match=rf"{name}: is a pipe"):
        load(tmp_path, state_only=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mesh": {"dp": 10**9, "tp": 2}}, "Expected `int` <= 4096"),
        ({"mesh": {"dp": 0, "tp": 2}}, "Expected `int` >= 1"),
        ({"mesh": {"dp": 4096, "tp": 4096}}, "has 16,777,216 ranks"),
        ({"mesh": {"dp": 2}}, "is split along tp, which the mesh does not have"),
        ({"mesh": {"dp": 3, "tp": 2}}, "cannot be split as"),
        ({"shards": []}, "in shards"),
        ({"tensors": {"model.w": []}}, "Expected `object`, got `array`"),
        ({"tensors": {}}, "does not have a count of steps"),
        ({"step": -1}, "Expected `int` >= 0"),
        ({"frozen": {"model.w": "0" * 64}}, "holds 'model.w', and leaves it out"),
    ],
)
def test_a_manifest_of_shards_is_checked(tmp_path: Path, change: dict[str, object], message: str) -> None:
    save(tmp_path, {1: state(1)})
    place = tmp_path / "step-00000001" / "manifest.json"
    place.write_text(json.dumps({**json.loads(place.read_bytes()), **change}))
    with pytest.raises(StateError, match=message):
        _ = load(tmp_path, state_only=True).steps_done
