"""Weights in files of safetensors: each rank takes its part of them; files that do not fit change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import dmc
from dmc.compiled_step import CompiledStep
from dmc.errors import InputError, StateError
from dmc.runtime.state.weights import loading
from tests.compiled import assert_same_bits
from tests.exec.test_meta_models import CONFIGS, compiled, empty_weights, losses
from tests.weight_folders import INDEX, model, net_step, shards, weights_of


@pytest.fixture(scope="module")
def step() -> CompiledStep:
    return net_step()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shards(tmp_path / "weights", weights_of())


def test_a_folder_an_index_and_a_file(step: CompiledStep, folder: Path, tmp_path: Path) -> None:
    save_file(weights_of(2), tmp_path / "one.safetensors")
    for path, seed in ((folder, 0), (tmp_path / "one.safetensors", 2), (folder / INDEX, 0)):
        step.load_weights(path)
        assert_same_bits(model(step), weights_of(seed))
        assert torch.equal(step.state_dict()["model"]["back.weight"], weights_of(seed)["first.weight"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_floating_types_are_converted(step: CompiledStep, tmp_path: Path, dtype: torch.dtype) -> None:
    given = {name: each.to(dtype) if each.is_floating_point() else each for name, each in weights_of().items()}
    save_file(given, tmp_path / "model.safetensors")
    step.load_weights(tmp_path)
    kinds = {name: each.dtype for name, each in weights_of().items()}
    assert_same_bits(model(step), {name: each.to(kinds[name]) for name, each in given.items()})


@pytest.mark.parametrize("rename", [lambda name: f"net.inner.{name}", lambda name: name])
def test_all_names_may_have_a_prefix(step: CompiledStep, tmp_path: Path, rename: Callable[[str], str]) -> None:
    save_file({rename(name): each for name, each in weights_of(4).items()}, tmp_path / "model.safetensors")
    step.load_weights(tmp_path)
    assert_same_bits(model(step), weights_of(4))


def test_weights_of_the_model_inside_another(tmp_path: Path) -> None:
    config = CONFIGS["gpt2"]()
    whole = AutoModelForCausalLM.from_config(config)
    whole.transformer.save_pretrained(tmp_path)
    with empty_weights():
        step = compiled(AutoModelForCausalLM.from_config(config))
    step.load_weights(tmp_path)
    assert_same_bits(step.state_dict()["model"], dict(whole.state_dict()))


def test_any_name_of_a_tied_tensor_is_enough_and_several_must_agree(step: CompiledStep, tmp_path: Path) -> None:
    weights = weights_of(5)
    weight = weights.pop("first.weight")
    path = tmp_path / "model.safetensors"
    save_file({**weights, "back.weight": weight}, path)
    step.load_weights(path)
    assert_same_bits(model(step), weights_of(5))
    save_file({**weights, "back.weight": weight, "first.weight": weight.clone()}, path)
    step.load_weights(path)
    save_file({**weights, "back.weight": weight, "first.weight": weight + 1}, path)
    with pytest.raises(
        StateError, match=r"^'back\.weight' in .*model\.safetensors: differs from 'first\.weight' in model"
    ):
        step.load_weights(path)
    with pytest.raises(StateError, match="has no weights yet"):
        step.state_dict()
    step.load_weights(path, ignore=["back.*"])
    assert torch.equal(model(step)["first.weight"], weight + 1)


def test_what_is_ignored_keeps_its_numbers(step: CompiledStep, folder: Path, tmp_path: Path) -> None:
    step.load_weights(folder)
    others = {name: each for name, each in weights_of(7).items() if not name.startswith("last")}
    save_file({**others, "h.0.attn.mask": torch.ones(2)}, tmp_path / "model.safetensors")
    step.load_weights(tmp_path / "model.safetensors", ignore=["*.mask", "last.*"])
    assert_same_bits(model(step), {**weights_of(0), **others})


def test_a_rank_reads_only_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIGS["llama"]()
    whole = AutoModelForCausalLM.from_config(config)
    whole.save_pretrained(tmp_path)
    plan = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp", zero=3)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    step = compiled(empty, plan=plan)
    part, read = loading.part_of, dict[str, list[int]]()

    def noted(source: Any, *others: Any) -> np.ndarray:
        array = part(source, *others)
        read.setdefault(source.spec.name, []).append(array.size)
        return array

    monkeypatch.setattr(loading, "part_of", noted)
    step.load_weights(tmp_path)
    sizes = {name: tensor.numel() for name, tensor in whole.named_parameters()}
    assert read == {name: [size // 2] * 2 for name, size in sizes.items()}


@pytest.mark.parametrize(("shard_size", "files"), [("5GB", 1), ("20kB", 6)])
def test_what_is_saved_is_read_by_transformers_and_by_a_step(tmp_path: Path, shard_size: str, files: int) -> None:
    config = CONFIGS["llama"]()
    step = compiled(AutoModelForCausalLM.from_config(config), verify=False)
    losses(step)
    folder = tmp_path / "new" / "weights"
    step.save_weights(folder, shard_size=shard_size)
    config.save_pretrained(folder)
    assert len([*folder.glob("*.safetensors")]) == files
    assert len([*folder.glob("*.json")]) == 1 + (files > 1)
    again = AutoModelForCausalLM.from_pretrained(folder)
    assert_same_bits(step.state_dict()["model"], dict(again.state_dict()))
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    other = compiled(empty)
    other.load_weights(folder)
    assert_same_bits(step.state_dict()["model"], other.state_dict()["model"])


def test_weights_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    step = net_step(on_meta=False)
    for size in ("100", "5GB", "200"):
        step.save_weights(tmp_path, shard_size=size)
        (tmp_path / "config.json").touch()
        other = net_step()
        other.load_weights(tmp_path)
        assert_same_bits(step.state_dict()["model"], other.state_dict()["model"])
        step(torch.randn(8, 4), torch.randn(8, 6))
    assert not [*tmp_path.glob(".*")]


def test_weights_that_cannot_be_written_leave_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = net_step(on_meta=False)
    step.save_weights(tmp_path, shard_size="100")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    written = list[Path]()

    def failing(path: Path, *others: Any) -> None:
        written.append(path)
        path.touch()
        if len(written) == 3:
            raise OSError("no space left")

    monkeypatch.setattr("dmc.runtime.state.weights.saving._write_file", failing)
    with pytest.raises(OSError, match="no space left"):
        step.save_weights(tmp_path, shard_size="100")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_they_are_saved_in_a_narrower_type(tmp_path: Path) -> None:
    step = net_step(on_meta=False)
    step.save_weights(tmp_path, dtype="bf16")
    saved = load_file(tmp_path / "model.safetensors")
    for name, tensor in model(step).items():
        assert torch.equal(saved[name], tensor.bfloat16() if tensor.is_floating_point() else tensor), name
    with pytest.raises(InputError, match="dtype: is 'i8', which is no floating type"):
        step.save_weights(tmp_path, dtype="i8")
