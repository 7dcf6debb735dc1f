"""Weights that are not trained: no gradient, no optimizer state, their own type, and no copy in a checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.errors import StateError
from tests.compiled import clone_state
from tests.large import large_unless

WIDTH, RANK = 64, 2
PLANS = {
    "one rank": None,
    "zero3": dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp", zero=3),
    "tp": dmc.plan(dmc.Mesh(tp=2)).use(dmc.plans.megatron("tp")),
}


class Adapted(nn.Module):
    """A frozen layer in bf16 beside which a product of low rank, in f32, is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH).bfloat16().requires_grad_(False)
        self.a, self.b = nn.Linear(WIDTH, RANK, bias=False), nn.Linear(RANK, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.b(self.a(x))


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Adapted(), nn.GELU(), Adapted())


def _batch() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.randn(4, WIDTH, generator=random), torch.randn(4, WIDTH, generator=random)


def _compiled(model: nn.Module, plan: object = None) -> dmc.CompiledStep:
    return dmc.compile(
        model,
        loss=functional.mse_loss,
        optimizer=dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0),
        example=_batch(),
        precision="bf16-mixed",
        plan=plan,  # pyright: ignore[reportArgumentType]
        verify=plan is None,
    )


@pytest.mark.parametrize("name", large_unless(("zero3",), PLANS))
def test_frozen_weights_are_left_alone(name: str, tmp_path: Path) -> None:
    model = _model()
    before, step = clone_state(model), _compiled(model, PLANS[name])
    frozen = {spec.name: spec for spec in step.signature.state if spec.role == "frozen"}
    assert sorted(frozen) == sorted(f"{place}.layer.{kind}" for place in "02" for kind in ("bias", "weight"))
    assert {spec.dtype for spec in frozen.values()} == {"bf16"}
    kept = [spec.name for spec in step.signature.state if spec.role == "optimizer"]
    assert kept and not any(".layer." in each for each in kept)
    # Split as trained weights are: half of each on each rank.
    held = step.rank_state_dict(0)["model"]["0.layer.weight"]
    assert held.size == WIDTH * WIDTH // (1 if name == "one rank" else 2)
    # No gradient, and no copy in f32.
    (rank, *_) = step.memory().ranks
    assert not any(buffer.label.startswith("gradient of") and ".layer." in buffer.label for buffer in rank.buffers)
    assert max(buffer.range.length for buffer in rank.buffers) < 4 * WIDTH * WIDTH // (2 if name == "tp" else 1)
    checkpoints = dmc.Checkpoints(step, tmp_path)
    for _ in range(3):
        step(*_batch())
    checkpoints.save()
    checkpoints.wait()
    after = step.state_dict()["model"]
    changed = {key for key, tensor in before.items() if not torch.equal(tensor, after[key])}
    assert changed == {f"{place}.{part}.weight" for place in "02" for part in "ab"}
    assert not set(frozen) & set(dmc.load(tmp_path, state_only=True).state_dict()["model"])


def test_a_checkpoint_is_resumed_beside_the_same_frozen_weights(tmp_path: Path) -> None:
    step = _compiled(_model())
    few, all_ = dmc.Checkpoints(step, tmp_path / "few"), dmc.Checkpoints(step, tmp_path / "all", frozen=True)
    step(*_batch())
    for checkpoints in (few, all_):
        checkpoints.save()
        checkpoints.wait()
    expected = [step(*_batch()).item() for _ in range(2)]
    sizes = [sum(path.stat().st_size for path in (tmp_path / name).rglob("*.safetensors")) for name in ("few", "all")]
    assert sizes[1] - sizes[0] >= 2 * 2 * WIDTH * (WIDTH + 1)

    assert few.resume() == 1
    assert [step(*_batch()).item() for _ in range(2)] == expected
    other = step.state_dict()["model"]["2.layer.weight"] + 1
    step.load_state_dict({"model": {**step.state_dict()["model"], "2.layer.weight": other}})
    with pytest.raises(StateError, match=r"from frozen weights that this step does not have: 2\.layer\.weight"):
        few.resume()
    assert all_.resume() == 1
    assert [step(*_batch()).item() for _ in range(2)] == expected
    assert few.resume() == 1


def test_a_state_without_frozen_weights_is_loaded() -> None:
    step = _compiled(_model())
    step(*_batch())
    state = step.state_dict()
    trained = {key: value for key, value in state["model"].items() if ".layer." not in key}
    step(*_batch())
    step.load_state_dict({**state, "model": trained})
    assert all(torch.equal(value, state["model"][key]) for key, value in step.state_dict()["model"].items())
    del trained["0.a.weight"]
    with pytest.raises(StateError, match=r"missing '0\.a\.weight'"):
        step.load_state_dict({**state, "model": trained})


def test_the_compiled_model_keeps_its_frozen_weights_and_another_gets_them() -> None:
    model, other = _model(), _model()
    step = _compiled(model)
    step(*_batch())
    versions = {name: tensor._version for name, tensor in model.named_parameters()}
    with torch.no_grad():
        for tensor in other.parameters():
            tensor.zero_()
    for each in (model, other):
        step.update(each)
    written = {name for name, tensor in model.named_parameters() if tensor._version != versions[name]}
    assert written == {f"{place}.{part}.weight" for place in "02" for part in "ab"}
    for (name, own), tensor in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(own, tensor), name
    np.testing.assert_array_equal(step.state_dict()["model"]["0.a.weight"], model.state_dict()["0.a.weight"])
