"""State dictionaries: every name, tied names, and refusals that list all that is wrong."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest
import torch

from dmc.errors import StateError
from dmc.program.signature import Signature
from dmc.runtime.state import dictionaries as states
from tests.linear_step import SIGNATURE, initial_state


def _state() -> dict[str, Any]:
    return dict(states.build(SIGNATURE.state, initial_state()))


def _arrays(state: dict[str, Any]) -> list[np.ndarray]:
    arrays = [array for array in states.flatten(SIGNATURE.state, state) if array is not None]
    assert len(arrays) == len(SIGNATURE.state)
    return arrays


def test_build_sorts_by_section() -> None:
    state = _state()
    assert list(state["model"]) == ["weight", "bias", "scale", "head.scale", "seen"]
    assert list(state["optimizer"]) == ["weight.momentum", "bias.momentum"]
    assert (state["step"], state["seed"]) == (0, 7)
    assert state["model"]["head.scale"] is state["model"]["scale"]


def test_flatten_is_the_inverse() -> None:
    for got, expected in zip(_arrays(_state()), initial_state(), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_torch_tensors_are_accepted() -> None:
    state = _state()
    state["model"]["weight"] = torch.full((3, 2), 4.0)
    state["step"] = torch.tensor(12)
    arrays = _arrays(state)
    assert arrays[0].tolist() == [[4.0, 4.0]] * 3
    assert arrays[6].item() == 12


@pytest.mark.parametrize("dropped", ["scale", "head.scale"])
def test_one_name_of_a_tied_tensor_is_enough(dropped: str) -> None:
    state = _state()
    del state["model"][dropped]
    assert _arrays(state)[2].tolist() == [1.5, -0.75]


def test_tied_names_must_agree() -> None:
    state = _state()
    state["model"]["head.scale"] = np.zeros(2, ml_dtypes.bfloat16)
    with pytest.raises(StateError, match=r"model: 'head.scale': differs from 'scale', but both are the same tensor"):
        states.flatten(SIGNATURE.state, state)


def test_every_fault_is_listed_with_the_nearest_name() -> None:
    state = _state()
    state["model"]["wieght"] = state["model"].pop("weight")
    state["model"]["bias"] = np.zeros(3, np.float32)
    state["optimizer"]["extra"] = np.zeros(1)
    with pytest.raises(StateError) as caught:
        states.flatten(SIGNATURE.state, state)
    message = str(caught.value)
    assert "model: missing 'weight' (nearest: 'wieght')" in message
    assert "model: unexpected 'wieght' (nearest: 'weight')" in message
    assert "optimizer: unexpected 'extra'" in message
    assert "model: 'bias': expected f32[2], got f32[3]" in message


@pytest.mark.parametrize("section", ["model", "optimizer", "step", "seed"])
def test_missing_section(section: str) -> None:
    state = _state()
    del state[section]
    with pytest.raises(StateError, match=f"lacks the section '{section}'"):
        states.flatten(SIGNATURE.state, state)


def test_a_plain_model_dictionary_is_refused() -> None:
    with pytest.raises(StateError, match="is that of a model, its tensors by name"):
        states.flatten(SIGNATURE.state, _state()["model"])
    with pytest.raises(StateError, match="has unexpected 'epoch'"):
        states.flatten(SIGNATURE.state, {**_state(), "epoch": 3})


def test_signature_survives_json() -> None:
    assert msgspec.convert(SIGNATURE.to_json(), Signature) == SIGNATURE
