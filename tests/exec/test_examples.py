"""The examples: training scripts as people have them, each beside its eager twin."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.large import large

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_LINES = 15


@contextmanager
def modules_of(folder: str) -> Generator[Any]:
    """Imports modules of a folder, by name."""
    sys.path.insert(0, str(EXAMPLES / folder))
    try:
        yield importlib.import_module
    finally:
        sys.path.pop(0)
        # The folders have modules of the same names.
        for name in ("train", "train_eager", "run", "sample"):
            sys.modules.pop(name, None)


@pytest.fixture
def nanogpt() -> Iterator[Any]:
    """The modules of nanoGPT."""
    with modules_of("nanogpt") as module:
        yield module


def _small(nanogpt: Any, folder: Path, **changes: Any) -> Any:
    sizes = {"block_size": 16, "vocab_size": 32, "n_layer": 1, "n_head": 2, "n_embd": 32, "batch_size": 2}
    loop = {"max_iters": 4, "eval_interval": 2, "eval_iters": 4, "warmup_iters": 2}
    return nanogpt("nanogpt").Config(**sizes, **loop, out=str(folder), **changes)


@pytest.mark.parametrize("folder", ["nanogpt", "images", "classifier", "buckets"])
def test_a_compiled_script_is_eagers_but_for_a_few_lines(folder: str) -> None:
    eager, compiled = ((EXAMPLES / folder / name).read_text().splitlines() for name in ("train_eager.py", "train.py"))
    changed = [line for line in difflib.ndiff(eager, compiled) if line.startswith("+ ")]
    assert 0 < len(changed) <= MOST_LINES


def test_nanogpt_is_eagers(nanogpt: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two groups, accumulation, cosine, clipping, evaluation; then from the checkpoint on."""
    text = torch.arange(3000) * torch.arange(3000) % 31
    config = _small(nanogpt, tmp_path)
    more = replace(config, max_iters=6, resume=True)
    losses: list[list[float]] = []
    told: list[list[float]] = []
    for name in ("train_eager", "train"):
        train = nanogpt(name).train
        losses.append([*train(config, text), *train(more, text)])
        said = capsys.readouterr().out
        told.append([float(word.strip("',}")) for word in said.split() if "." in word])
    assert (len(losses[1]), len(told[1])) == (6, 6)
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-4)
    np.testing.assert_allclose(told[1], told[0], rtol=2e-4)


@large
def test_nanogpt_with_dropout_and_without_accumulation(nanogpt: Any, tmp_path: Path) -> None:
    text = torch.arange(3000) * torch.arange(3000) % 31
    config = _small(nanogpt, tmp_path, dropout=0.1, gradient_accumulation_steps=1)
    eager, compiled = (nanogpt(name).train(config, text) for name in ("train_eager", "train"))
    # Other masks, but the same training.
    np.testing.assert_allclose(compiled, eager, atol=0.1)
    assert compiled != eager


@large
def test_nanogpt_from_the_command_line(nanogpt: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks have eager's losses, and their weights generate text."""
    told: list[list[float]] = []
    for options in (["--eager"], ["--ranks", "2"]):
        assert nanogpt("run").main([*options, "--layers", "1", "--iterations", "2", "--out", str(tmp_path)]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        told.append([float(word) for word in last.split()[1:4:2]])
    np.testing.assert_allclose(told[1], told[0], rtol=2e-4)
    assert nanogpt("sample").main([str(tmp_path / "ckpt.dmc")]) == 0
    assert len(capsys.readouterr().out) > len("def ") + 200


def _both(folder: str, **settings: Any) -> tuple[list[float], list[float]]:
    """What the two scripts of a folder return."""
    with modules_of(folder) as module:
        config = module(folder).Config(**settings)
        return module("train_eager").train(config), module("train").train(config)


def test_images_are_eagers() -> None:
    """Augmentation, batch normalisation, last batches that are smaller, a scheduler, accuracy of other images."""
    eager, compiled = _both("images", images=20, held_out=12, size=6, width=4, batch_size=8, epochs=2)
    assert len(compiled) == 2 * (3 + 1)
    np.testing.assert_allclose(compiled, eager, rtol=2e-4)


def test_a_classifier_of_transformers_is_eagers() -> None:
    """Padded texts, two groups, clipping, the library's own scheduler, accuracy of other texts."""
    sizes = {"texts": 12, "held_out": 8, "length": 8, "vocabulary": 32, "width": 16, "layers": 1, "heads": 2}
    eager, compiled = _both("classifier", **sizes, batch_size=4, epochs=2)
    assert len(compiled) == 2 * (3 + 1)
    np.testing.assert_allclose(compiled, eager, rtol=2e-4)


@large
def test_buckets_are_eagers() -> None:
    """Batches of two lengths in random order, padding that does not count, clipping, evaluation of each length."""
    sizes = {"sentences": 48, "lengths": (4, 8), "vocabulary": 16, "width": 16, "heads": 2, "layers": 1}
    eager, compiled = _both("buckets", **sizes, batch_size=2, epochs=2)
    assert len(compiled) > 8
    np.testing.assert_allclose(compiled, eager, rtol=2e-4)
