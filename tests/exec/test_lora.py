"""Adapters of `peft` train as in eager, whatever the model; what is frozen is not touched."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from tests.compiled import call, clone_state
from tests.eager import EagerTrainer
from tests.interpreted import RATE, InterpretedStep
from tests.large import large_unless
from tests.lora import KINDS, adapted, batch, peft
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS = 5
CASES = [(kind, seed) for kind in KINDS for seed in range(3)]
QUICK = (("llama", 0), ("bert", 1))


def _descent(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=RATE)


@pytest.mark.parametrize("case", large_unless(QUICK, CASES), ids=str)
def test_adapters_train_as_in_eager(context: Any, case: tuple[str, int]) -> None:
    """Layers, ranks, scalings, DoRA, biases, saved modules and a second adapter at random."""
    kind, seed = case
    model = adapted(kind, seed)
    eager, start = copy.deepcopy(model), clone_state(model)
    batches: list[Any] = [batch(kind, i) for i in range(STEPS)]
    step = InterpretedStep(context, model, None, batches[0], optimizer=_descent(model))
    names = [spec.name for spec in step.signature.batch]
    losses = [step(*(each[name] for name in names)) for each in batches]
    trainer = EagerTrainer(eager, None, _descent(eager))
    assert_losses_close(losses, [trainer.step(each) for each in batches], TOLERANCE["fp32"])
    found, expected = step.model_state(), eager.state_dict()
    trained = {name for name, each in model.named_parameters() if each.requires_grad}
    assert any("lora_A.default" in name for name in trained) and not any(".other." in name for name in trained)
    assert_states_close(start, found, {name: expected[name] for name in trained if name in found}, TOLERANCE["fp32"])
    assert all(torch.equal(found[name], start[name]) for name in (found.keys() & start.keys()) - trained)


def test_no_gradient_of_a_frozen_matrix_is_computed(context: Any) -> None:
    options: dict[str, Any] = {
        "use_dora": False,
        "target_modules": "all-linear",
        "bias": "none",
        "modules_to_save": None,
    }
    model = adapted("llama", 0, **options)
    example: Any = batch("llama", 0)
    step = InterpretedStep(context, model, None, example, optimizer=_descent(model))
    products = re.findall(r"linalg\.matmul[^\n]*-> tensor<(\d+)x(\d+)xf32>", str(step.module))
    frozen = {tuple(each.shape) for each in model.parameters() if not each.requires_grad and each.dim() == 2}
    made = {shape for rows, columns in products for shape in ((int(rows), int(columns)), (int(columns), int(rows)))}
    trained = {tuple(each.shape) for each in model.parameters() if each.requires_grad}
    assert trained <= made and not frozen & made


@pytest.mark.parametrize("verify", large_unless((False,), (False, True)))
def test_adapters_come_back_by_their_own_names(verify: bool, tmp_path: Path) -> None:
    """After `update`, `peft` saves and loads what the step has trained, with dropout, which `verify` compares."""
    layers = ["v_proj", "down_proj"]
    model: Any = adapted("llama", 1, lora_dropout=0.2, target_modules=layers, use_dora=False, modules_to_save=None)
    example, before = batch("llama", 0), clone_state(model)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-2)
    step = dmc.compile(model, optimizer=optimizer, example=example, verify=verify)
    for _ in range(2):
        call(step, example)
    step.update(model)
    assert isinstance(model, peft.PeftModel)
    adapters = peft.get_peft_model_state_dict(model)
    assert adapters and all(name.startswith("base_model.model.") and "default" not in name for name in adapters)
    model.save_pretrained(str(tmp_path), selected_adapters=["default"])
    base = model.unload()
    read = peft.PeftModel.from_pretrained(base, str(tmp_path))
    trained, again = step.state_dict()["model"], read.state_dict()
    changed = {name for name in again if not torch.equal(trained[name], before[name])}
    assert changed and all("lora_" in name or "bias" in name for name in changed)
    assert all(torch.equal(again[name], trained[name]) for name in changed)
