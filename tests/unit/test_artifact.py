"""The `.dmc` file: what goes in comes out, and anything else is refused before it is used."""

from __future__ import annotations

import dataclasses
import json
import platform
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dmc.errors import ArtifactError, StateError
from dmc.program.movements import Entry
from dmc.runtime.files import zip_members
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.files.container import MANIFEST
from dmc.runtime.files.versions import tool_versions
from dmc.runtime.reports.ledger import Ledger
from dmc.runtime.tensors.arrays import are_zeros
from tests.artifacts import artifact_of, write_container
from tests.linear_step import MLIR, SIGNATURE, initial_state

# The tensors of the linear step that are not zeros.
STORED = ("model.weight", "model.bias", "model.scale", "seed.seed")


@pytest.fixture
def artifact() -> Artifact:
    return artifact_of(
        modules={"cpu": b"\x00module\xff"},
        ir={"01-imported": MLIR, "02-placed": "module {}"},
        statistics={"dispatches": 12},
        requires=(platform.machine(),),
        ledger=Ledger({"dp": 2}, (Entry("all_reduce", "w", "f32", (3, 2), ("dp",), 2, 48),), (24, 24)),
    )


@pytest.fixture
def path(artifact: Artifact, tmp_path: Path) -> Path:
    artifact.write(tmp_path / "step.dmc")
    return tmp_path / "step.dmc"


def test_round_trip(artifact: Artifact, path: Path) -> None:
    read = Artifact.read(path)
    for field in dataclasses.fields(Artifact):
        if field.name != "state":
            assert getattr(read, field.name) == getattr(artifact, field.name), field.name
    for got, expected in zip(read.state, artifact.state, strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(got, expected)


def test_a_plan_is_read_with_its_own_code_only(artifact: Artifact, tmp_path: Path) -> None:
    artifact.write(tmp_path / "step.dmc")
    assert Artifact.read(tmp_path / "step.dmc").certificate == artifact.certificate
    dataclasses.replace(artifact, modules={"cpu": b"of another plan"}).write(tmp_path / "step.dmc")
    with pytest.raises(ArtifactError, match=r"the certificate: is for other code: for modules/cpu it has"):
        Artifact.read(tmp_path / "step.dmc")


def test_same_artifact_same_bytes(artifact: Artifact, path: Path, tmp_path: Path) -> None:
    artifact.write(tmp_path / "again.dmc")
    Artifact.read(path).write(tmp_path / "copy.dmc")
    assert path.read_bytes() == (tmp_path / "again.dmc").read_bytes() == (tmp_path / "copy.dmc").read_bytes()


def test_members_are_plain_files(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        forms = ["ir/01-imported.mlir", "ir/02-placed.mlir"]
        others = ["job.bin", "ledger.json", "modules/cpu.vmfb"]
        names = [f"state/{name}" for name in STORED]
        assert archive.namelist() == ["certificate.json", *forms, *others, *names, MANIFEST]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.read("ir/01-imported.mlir").decode() == MLIR


def test_state_has_a_place_for_equal_names(artifact: Artifact, tmp_path: Path) -> None:
    # A parameter called "step" beside the counter "step".
    renamed = dataclasses.replace(SIGNATURE.state[0], name="step")
    signature = dataclasses.replace(SIGNATURE, state=(renamed, *SIGNATURE.state[1:]))
    dataclasses.replace(artifact, signature=signature).write(tmp_path / "step.dmc")
    np.testing.assert_array_equal(Artifact.read(tmp_path / "step.dmc").state[0], initial_state()[0])


def test_zeros_are_named_and_not_stored(artifact: Artifact, tmp_path: Path) -> None:
    weight, bias, *others = artifact.state
    # A negative zero is another number.
    state = (np.zeros_like(weight), np.full_like(bias, -0.0), *others)
    dataclasses.replace(artifact, state=state).write(tmp_path / "step.dmc")
    with zipfile.ZipFile(tmp_path / "step.dmc") as archive:
        stored = [name.removeprefix("state/") for name in archive.namelist() if name.startswith("state/")]
        zeros = json.loads(archive.read(MANIFEST))["zeros"]
    assert "model.weight" in zeros
    assert "model.bias" in stored
    assert len(zeros) + len(stored) == len(state)
    for got, expected in zip(Artifact.read(tmp_path / "step.dmc").state, state, strict=True):
        assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


def test_zeros_take_up_no_memory(path: Path, tmp_path: Path) -> None:
    read = Artifact.read(path)
    named = [array for array in read.state if are_zeros(array)]
    assert len(named) == len(read.state) - len(STORED)
    assert not any(array.any() or array.flags.writeable for array in named)
    assert not are_zeros(np.zeros(4)), "its memory would have to be read"
    assert not are_zeros(np.broadcast_to(np.float32(-0.0), (4,)))
    # What is only named does not have to be read to be named again.
    read.write(tmp_path / "again.dmc")
    assert path.read_bytes() == (tmp_path / "again.dmc").read_bytes()


def test_a_large_member_is_read_in_parts(artifact: Artifact, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_members, "_AT_ONCE", 7)
    test_round_trip(artifact, path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ArtifactError, match=r"is damaged or not a \.dmc file"):
        Artifact.read(path)


def test_a_file_is_written_and_read_while_python_ends(path: Path, tmp_path: Path) -> None:
    script = f"""
import atexit
from pathlib import Path
from dmc.runtime.files.artifact import Artifact
artifact = Artifact.read({str(path)!r}, to_run=False)
@atexit.register
def save():
    artifact.write({str(tmp_path / "saved.dmc")!r})
    Artifact.read({str(tmp_path / "saved.dmc")!r}, to_run=False)
    Path({str(tmp_path / "done")!r}).touch()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "done").exists()
    assert path.read_bytes() == (tmp_path / "saved.dmc").read_bytes()


def test_a_tensor_is_stored_or_zero_and_of_its_size(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop(MANIFEST))
    longer = members | {"state/model.weight": members["state/model.weight"] + b"1234"}
    write_container(path, manifest, longer)
    with pytest.raises(ArtifactError, match=r"state 'model\.weight': has 28 bytes, and the signature says 24"):
        Artifact.read(path)
    write_container(path, {**manifest, "zeros": [*manifest["zeros"], "model.weight"]}, members)
    with pytest.raises(ArtifactError, match=r"model\.weight is stored, and said not to be"):
        Artifact.read(path)


def test_state_must_fit_the_signature(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="expected 8 arrays, got 7"):
        dataclasses.replace(artifact, state=artifact.state[:-1]).write(tmp_path / "step.dmc")
    wrong = (artifact.state[0].astype(np.float64), *artifact.state[1:])
    with pytest.raises(StateError, match=r"state 'weight': expected f32\[3, 2\], got f64\[3, 2\]"):
        dataclasses.replace(artifact, state=wrong).write(tmp_path / "step.dmc")
    assert list(tmp_path.iterdir()) == []


def _read_or_refuse(path: Path) -> Artifact | None:
    try:
        return Artifact.read(path)
    except ArtifactError:
        return None


def test_every_damaged_byte_is_noticed(artifact: Artifact, path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    damaged = tmp_path / "damaged.dmc"
    refused = 0
    # The directory of a zip is at its end: damage every byte of it.
    for position in (*range(0, len(whole) - 500, 31), *range(len(whole) - 500, len(whole))):
        damaged.write_bytes(whole[:position] + bytes([whole[position] ^ 0x5A]) + whole[position + 1 :])
        if (read := _read_or_refuse(damaged)) is None:
            refused += 1
            continue
        # Parts of a zip's headers (dates, attributes) carry no content.
        assert (read.modules, read.ir, read.signature) == (artifact.modules, artifact.ir, artifact.signature)
        assert all(np.array_equal(a, b) for a, b in zip(read.state, artifact.state, strict=True))
    assert refused > 500


@pytest.mark.parametrize("kept", [0, 10, 1000, -1])
def test_a_cut_file_is_refused(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ArtifactError, match=r"is damaged or not a \.dmc file"):
        Artifact.read(path)


def _rewrite(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _set(**fields: object) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps({**json.loads(members[MANIFEST]), **fields}).encode()

    return change


def _versions(compiler: str) -> dict[str, str]:
    return {**tool_versions(), "iree-base-compiler": compiler}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update({"modules/cpu.vmfb": b"other"}), r"checksum of modules/cpu\.vmfb does not match"),
        (lambda m: m.pop("state/model.weight"), r"members and manifest disagree about state/model\.weight"),
        (lambda m: m.update({"modules/more.vmfb": b""}), r"members and manifest disagree about modules/more\.vmfb"),
        (lambda m: m.pop(MANIFEST), r"has no manifest\.json: not a \.dmc file"),
        (lambda m: m.update({MANIFEST: b"{"}), r"manifest\.json: Expecting property name"),
        (lambda m: m.update({MANIFEST: b"[]"}), r"manifest\.json: Expected `object`, got `array`"),
        (_set(schema=99), r"has schema 99; this dmc reads schema 6\n  hint: install a newer dmc"),
        (_set(schema=5), r"has schema 5; this dmc reads schema 6\n  hint: compile the step again"),
        (_set(sha256=None), r"manifest\.json: Expected `object`, got `null` - at `\$\.sha256`"),
        (_set(zeros=[]), r"state 'model\.seen': is not in the file, nor said to be zero"),
        (_set(zeros=["model.no"]), r"state: contains model\.no, which the signature does not name"),
        (_set(signature={}), r"manifest\.json: Object missing required field `state` - at `\$\.signature`"),
        (_set(versions=_versions("2.1.0")), r"was compiled by IREE 2\.1\.0; the installed runtime is 3\."),
        (_set(requires=["pdp11", "float"]), r"contains code for pdp11, but this processor is"),
        (_set(requires=None), r"manifest\.json: Expected `array`, got `null` - at `\$\.requires`"),
        (_set(versions={}), r"has no version of iree-base-compiler"),
    ],
)
def test_refusals(path: Path, change: Callable[[dict[str, bytes]], None], message: str) -> None:
    _rewrite(path, change)
    with pytest.raises(ArtifactError, match=message) as caught:
        Artifact.read(path)
    assert str(caught.value).startswith(str(path))


def test_another_patch_release_runs(path: Path) -> None:
    from iree.runtime import version

    major, minor = version.VERSION.split(".")[:2]
    _rewrite(path, _set(versions=_versions(f"{major}.{minor}.77")))
    assert Artifact.read(path).versions["iree-base-compiler"].endswith(".77")


def test_inspection_needs_no_fitting_runtime(path: Path) -> None:
    _rewrite(path, _set(versions=_versions("2.1.0")))
    assert Artifact.read(path, to_run=False).target == "cpu"


def test_state_of_another_signature_is_refused(path: Path, tmp_path: Path) -> None:
    manifest = json.loads(zipfile.ZipFile(path).read(MANIFEST))
    manifest["signature"]["state"][0]["name"] = "renamed"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
    write_container(tmp_path / "other.dmc", manifest, members)
    with pytest.raises(ArtifactError, match=r"state: contains model\.weight, which the signature does not name"):
        Artifact.read(tmp_path / "other.dmc")


def test_a_file_without_a_ledger_is_refused(path: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop(MANIFEST))
    for ledger, error in (
        ({"ledger.json": b'{"mesh": 1}'}, r"ledger\.json: Expected `object`, got `int`"),
        ({}, r"ledger\.json: is not in"),
    ):
        others = {name: data for name, data in members.items() if name != "ledger.json"}
        write_container(tmp_path / "other.dmc", manifest, others | ledger)
        with pytest.raises(ArtifactError, match=error):
            Artifact.read(tmp_path / "other.dmc")


def test_a_manifest_that_would_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmc.runtime.files.container.MAX_MANIFEST", 10)
    with pytest.raises(ArtifactError, match=r"manifest\.json would have .* bytes; at most 10 are read"):
        write_container(tmp_path / "other.dmc", {}, {})
    assert not [*tmp_path.iterdir()]


def test_no_file_and_no_zip(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such file"):
        Artifact.read(tmp_path / "none.dmc")
    with pytest.raises(ArtifactError, match="is a directory"):
        Artifact.read(tmp_path)
    (tmp_path / "text.dmc").write_text("not a zip")
    with pytest.raises(ArtifactError, match=r"is damaged or not a \.dmc file"):
        Artifact.read(tmp_path / "text.dmc")
