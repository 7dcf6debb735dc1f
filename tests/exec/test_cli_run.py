"""`dmc run` trains as calls from Python do."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dmc.cli.main import main
from dmc.cli.saving import Saving
from dmc.runtime import Step, load
from dmc.runtime.world.checkpoint import CheckpointWriter
from tests import linear_step
from tests.linear_step import batch, call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Step(linear_step.artifact()).save(tmp_path / "step.dmc")
    return tmp_path / "step.dmc"


def _write(path: Path, count: int, **changes: Any) -> Path:
    batches = [batch(seed) for seed in range(count)]
    arrays: dict[str, Any] = {name: np.stack([b[name] for b in batches]) for name in batches[0]}
    np.savez(path, **{name: array for name, array in {**arrays, **changes}.items() if array is not None})
    return path


def _losses(out: str) -> list[float]:
    return [float(line.split()[3]) for line in out.splitlines() if line.startswith("step ")]


def test_trains_in_the_order_of_the_file(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches, trained = _write(tmp_path / "b.npz", 3), tmp_path / "trained.dmc"
    options = ["--batches", str(batches), "--lr", "0.01"]
    assert main(["run", str(path), "--steps", "5", *options, "-o", str(trained)]) == 0
    first = capsys.readouterr().out
    step = load(path)
    expected = [float(call(step, batch(i % 3), lr=0.01)[0]) for i in range(5)]
    assert _losses(first) == pytest.approx(expected, abs=1e-6)
    assert first.splitlines()[0].startswith("step      1  loss ")
    assert first.splitlines()[-1].startswith("5 steps, ") and first.endswith(" ms per step\n")
    # It goes on from the file it wrote.
    assert main(["run", str(trained), "--steps", "1", *options]) == 0
    out = capsys.readouterr().out
    assert out.startswith("step      6  loss ")
    assert _losses(out) == pytest.approx([float(call(step, batch(0), lr=0.01)[0])], abs=1e-6)
    assert load(path).steps_done == 0


def test_resumes_from_the_last_checkpoint(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, save = list[int](), CheckpointWriter.save

    def noted(self: CheckpointWriter, step: int, parts: Any) -> None:
        saved.append(step)
        save(self, step, parts)

    def losses(steps: int, *options: str) -> list[float]:
        batches = ["--batches", str(_write(tmp_path / "b.npz", 4)), "--shuffle", "1"]
        assert main(["run", str(path), "--steps", str(steps), *batches, *options]) == 0
        return _losses(capsys.readouterr().out)

    monkeypatch.setattr(CheckpointWriter, "save", noted)
    whole, options = losses(8), ["--checkpoints", str(tmp_path / "checkpoints"), "--save-every", "2"]
    assert losses(5, *options) == whole[:5]
    assert sorted(each.name for each in (tmp_path / "checkpoints").iterdir()) == ["step-00000004", "step-00000005"]
    assert losses(8, *options) == whole[5:]
    assert losses(8, *options) == []
    later = tmp_path / "later.dmc"
    assert losses(9, *options, "-o", str(later)) != []
    assert saved == [2, 4, 5, 6, 8, 9]
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000009")
    assert main(["run", str(later), "--steps", "1", "--batches", str(tmp_path / "b.npz"), *options]) == 1
    assert "contains a checkpoint of step 8, but the file is already at step 9" in capsys.readouterr().err


def test_shuffle_visits_every_batch_once_a_round(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = _write(tmp_path / "b.npz", 4)
    command = ["run", str(path), "--steps", "8", "--batches", str(batches), "--lr", "0"]
    runs: list[list[float]] = []
    for options in ([], ["--shuffle", "1"], ["--shuffle", "1"]):
        assert main([*command, *options]) == 0
        runs.append(_losses(capsys.readouterr().out))
    # At a learning rate of 0 a batch has one loss, whenever it comes.
    assert runs[1] == runs[2] != runs[0]
    assert sorted(runs[1][:4]) == sorted(runs[1][4:]) == sorted(runs[0][:4])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": None}, "contains x, y, ids; the step takes x, y, ids, mask"),
        ({"more": np.zeros(2)}, "contains x, y, ids, mask, more; the step takes x, y, ids, mask"),
        (
            {"x": np.zeros((3, 4, 3), np.float32)},
            "expected a leading axis of batches, equally long in all arrays, got x f32[3, 4, 3]",
        ),
        ({"x": np.zeros((4, 3), np.float32)}, "'x' is one batch, f32[4, 3]: it lacks a leading axis of batches"),
        ({"x": np.zeros((2, 9, 3), np.float32)}, "input 'x': expected f32[4, 3], got f32[9, 3]"),
        ({"ids": np.zeros((2, 4), np.int32)}, "input 'ids': expected i64[4], got i32[4]"),
        ({"x": np.array([None, None])}, "is not an .npz file"),
    ],
)
def test_files_that_do_not_fit(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    batches = _write(tmp_path / "b.npz", 2, **changes)
    assert main(["run", str(path), "--steps", "1", "--batches", str(batches)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err.partition("dmc: error: ")[2]


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut"])
def test_files_that_are_no_npz(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    (tmp_path / "b.npz").write_bytes(content)
    assert main(["run", str(path), "--steps", "1", "--batches", str(tmp_path / "b.npz")]) == 1
    assert "b.npz: is not an .npz file" in capsys.readouterr().err
    assert main(["run", str(path), "--steps", "1", "--batches", str(tmp_path / "none.npz")]) == 1
    assert "none.npz: No such file or directory" in capsys.readouterr().err


def test_says_before_the_run_what_is_kept(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--steps", "1", "--batches", str(_write(tmp_path / "b.npz", 1))]
    assert main(["run", str(path), *options]) == 0
    assert capsys.readouterr().err == "note: the trained state will not be saved; to save it, pass -o FILE\n"
    trained = tmp_path / "trained.dmc"
    assert main(["run", str(path), *options, "-o", str(trained), "--save-every", "2"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"note: {trained} will hold the trained step: at the end, on Ctrl-C, every 2 steps",
        f"note: wrote {trained} after step 1",
    ]
    assert main(["run", str(path), *options, "--checkpoints", str(tmp_path / "saved")]) == 0
    assert capsys.readouterr().err == ""
    assert main(["run", str(path), *options, "--save-every", "2"]) == 1
    assert "--save-every: needs a file to write" in capsys.readouterr().err


def test_does_not_claim_what_it_does_not_do(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--steps",
        "1",
        "--batches",
        str(_write(tmp_path / "b.npz", 1)),
        "--checkpoints",
        str(tmp_path / "saved"),
    ]
    assert main(["run", str(path), *options]) == 0
    monkeypatch.setattr(Step, "verify_next", lambda _: None)
    capsys.readouterr()
    # The training is over: no step runs, and none is verified.
    assert main(["run", str(path), *options, "--verify"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("0 steps, ")
    assert "agrees" not in told.out
    # Ranks save nothing on Ctrl-C.
    others: Any = SimpleNamespace(peers=object(), is_first=True)
    saving = Saving(others, 0, "gpt.dmc", None, None)
    saving.announce()
    saving.on_interrupt()
    assert capsys.readouterr().err == "note: gpt.dmc will hold the trained step: at the end\n"


def test_saves_every_so_many_steps_and_when_interrupted(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, calls, written = tmp_path / "trained.dmc", 0, list[int]()
    whole, save = Step.call_flat, Step.save

    def call(self: Step, *values: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return whole(self, *values, **named)

    def noted(self: Step, path: Any) -> None:
        written.append(self.steps_done)
        save(self, path)

    monkeypatch.setattr(Step, "call_flat", call)
    monkeypatch.setattr(Step, "save", noted)
    options = ["--batches", str(_write(tmp_path / "b.npz", 1)), "-o", str(trained), "--save-every", "2"]
    handler = signal.getsignal(signal.SIGTERM)
    assert main(["run", str(path), "--steps", "9", *options]) == 130
    assert signal.getsignal(signal.SIGTERM) == handler
    assert written == [2, 4, 5]
    assert load(trained).steps_done == 5


def test_a_profile_is_compared_with_the_prediction(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches, profile = _write(tmp_path / "b.npz", 3), tmp_path / "run.json"
    assert main(["run", str(path), "--steps", "4", "--batches", str(batches), "--profile", str(profile)]) == 0
    out, told = capsys.readouterr()
    assert "samples/s" in out
    assert "run.json holds the profile" in told
    assert main(["compare", str(path), str(profile)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("step on cpu: predicted ")
    assert "in training, from step to step: " in out


def test_begins_with_the_weights_of_a_folder(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches, without = _write(tmp_path / "b.npz", 2), tmp_path / "without.dmc"
    trained, step = load(path), load(path)
    step.call_flat(batch(7))
    step.save_weights(tmp_path / "weights")
    linear_step.artifact().write(without, weights=False)
    options = ["--steps", "2", "--batches", str(batches), "--lr", "0.01"]
    assert main(["run", str(without), *options]) == 1
    told = capsys.readouterr().err
    assert "the step: has no weights yet: 4 tensors" in told and "dmc run takes --weights" in told
    assert main(["run", str(without), *options, "--weights", str(tmp_path / "weights")]) == 0
    trained.load_weights(tmp_path / "weights")
    expected = [float(call(trained, batch(number), lr=0.01)[0]) for number in range(2)]
    assert _losses(capsys.readouterr().out) == pytest.approx(expected, abs=1e-6)
    assert main(["inspect", str(without)]) == 0
    assert "without weights: 4 state tensors have no numbers yet" in capsys.readouterr().out
