"""Files of weights that are missing, damaged or another model's: what is wrong is named, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dmc.compiled_step import CompiledStep
from dmc.errors import StateError
from dmc.runtime.state.weights import loading
from tests.compiled import assert_same_bits
from tests.weight_folders import INDEX, model, net_step, shards, weights_of


@pytest.fixture(scope="module")
def step() -> CompiledStep:
    return net_step()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shards(tmp_path / "weights", weights_of())


def remove(folder: Path) -> None:
    (folder / "model-00002-of-00002.safetensors").unlink()


def cut(folder: Path) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


def lengthen(folder: Path) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    path.write_bytes(path.read_bytes() + b"more")


def cut_header(folder: Path) -> None:
    (folder / "model-00002-of-00002.safetensors").write_bytes((1 << 40).to_bytes(8, "little") + b"{")


def wrong_header(folder: Path) -> None:
    """A tensor is said to be larger than its bytes."""
    path = folder / "model-00002-of-00002.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"shape":[6]', b'"shape":[7]', 1))


def overlap(folder: Path) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    first, second = [each for each in header.values() if each.get("shape") == [6]][:2]
    second["data_offsets"] = first["data_offsets"]
    changed = json.dumps(header, separators=(",", ":")).encode().ljust(size)
    path.write_bytes(data[:8] + changed + data[8 + size :])


def change(folder: Path, **changes: torch.Tensor | None) -> None:
    """Tensors of the second file, which is written again, with its index."""
    path = folder / "model-00002-of-00002.safetensors"
    tensors = {**load_file(path), **{name.replace("__", "."): each for name, each in changes.items()}}
    kept = {name: each for name, each in tensors.items() if each is not None}
    save_file(kept, path)
    index = json.loads((folder / INDEX).read_text())["weight_map"]
    places = {name: file for name, file in index.items() if file != path.name} | dict.fromkeys(kept, path.name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def another_index(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())["weight_map"]
    places = {name.replace("norm", "ln"): file for name, file in index.items()}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def outside(folder: Path) -> None:
    places = {"first.weight": "../model.safetensors"}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def no_index(folder: Path) -> None:
    (folder / INDEX).unlink()


def nothing(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    (folder / "pytorch_model.bin").touch()


def rename(folder: Path) -> None:
    folder.rename(folder.with_name("other"))


def beside(folder: Path) -> None:
    save_file(weights_of(1), folder / "model.safetensors")


SECOND = r"model-00002-of-00002\.safetensors"
DRILLS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing shard": (remove, rf"{SECOND}: no such file\n.*says that it holds 5 tensors, such as 'norm\.bias'"),
    "cut short": (cut, rf"{SECOND}: is damaged: '.*' is said to end at byte .* of .*: it was cut short"),
    "longer": (lengthen, rf"{SECOND}: is damaged: its tensors do not lie one behind the other"),
    "header cut short": (cut_header, rf"{SECOND}: is damaged: it has no header of safetensors"),
    "wrong header": (wrong_header, rf"{SECOND}: is damaged: 'norm\..*', f32\[7\], has 28 bytes, and 24 are said"),
    "overlapping": (overlap, rf"{SECOND}: is damaged: its tensors do not lie one behind the other"),
    "wrong shape": (
        lambda folder: change(folder, norm__weight=torch.ones(2, 3)),
        rf"'norm\.weight' in {SECOND} is f32\[2, 3\], and in the step f32\[6\]",
    ),
    "wrong type": (
        lambda folder: change(folder, norm__num_batches_tracked=torch.ones([])),
        rf"'norm\.num_batches_tracked' in {SECOND} is f32\[\], and in the step i64\[\]",
    ),
    "unknown type": (
        lambda folder: change(folder, norm__weight=torch.ones(6).to(torch.float8_e4m3fn)),
        rf"'norm\.weight' in {SECOND} is F8_E4M3\[6\], and in the step f32\[6\]",
    ),
    "missing name": (lambda folder: change(folder, norm__weight=None), r"missing 'norm\.weight'"),
    "unexpected name": (
        lambda folder: change(folder, norm__weights=torch.ones(6)),
        rf"unexpected 'norm\.weights' in {SECOND} \(nearest: 'norm\.weight'\)\n.*ignore",
    ),
    "another index": (another_index, r"model-0000[12].*: (lacks|has) '(norm|ln)\..*', and .* says otherwise"),
    "outside": (outside, r"names '\.\./model\.safetensors', which is not in its folder"),
    "no index": (no_index, r"weights: contains 2 files, model-00001.* and others, and no index of them"),
    "no weights": (nothing, r"weights: contains no weights\n  hint: pytorch_model\.bin is of torch\.save"),
    "two at once": (
        beside,
        r"weights: contains model\.safetensors, which model\.safetensors\.index\.json does not name",
    ),
    "no file": (rename, r"weights: no such file"),
}


@pytest.mark.parametrize("drill", DRILLS)
def test_files_that_do_not_fit_change_nothing(step: CompiledStep, folder: Path, drill: str) -> None:
    spoil, message = DRILLS[drill]
    step.load_weights(folder)
    spoil(folder)
    with pytest.raises(StateError, match=message):
        step.load_weights(folder)
    assert_same_bits(model(step), weights_of())
    fresh = net_step()
    with pytest.raises(StateError, match=message):
        fresh.load_weights(folder)
    with pytest.raises(StateError, match="has no weights yet"):
        fresh(torch.randn(8, 4), torch.randn(8, 6))


def test_another_models_weights_are_told_briefly(step: CompiledStep, tmp_path: Path) -> None:
    save_file({f"block.{number}.weight": torch.ones(2) for number in range(400)}, tmp_path / "model.safetensors")
    with pytest.raises(StateError, match=r"missing 'first\.weight'(.|\n)*and 398 more\n  hint"):
        step.load_weights(tmp_path)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_where_reading_ends_on_the_way_no_step_runs(
    step: CompiledStep, folder: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    step.load_weights(folder)
    part, read = loading.part_of, list[str]()

    def failing(source: Any, *others: Any) -> np.ndarray:
        read.append(source.spec.name)
        if len(read) == 3:
            raise error("the disk is gone")
        return part(source, *others)

    monkeypatch.setattr(loading, "part_of", failing)
    with pytest.raises(error, match="the disk is gone"):
        step.load_weights(folder)
    with pytest.raises(StateError, match="has no weights yet: 9 tensors"):
        step(torch.randn(8, 4), torch.randn(8, 6))
    monkeypatch.undo()
    step.load_weights(folder)
    step(torch.randn(8, 4), torch.randn(8, 6))
