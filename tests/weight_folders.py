"""A small model, and folders of its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

import dmc
from dmc.compiled_step import CompiledStep

INDEX = "model.safetensors.index.json"


class Net(nn.Module):
    """Tied, frozen and counted numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 4)
        self.back = nn.Linear(4, 6, bias=False)
        self.back.weight = self.first.weight
        self.last.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.back(self.last(self.norm(self.first(x))))


def net_step(on_meta: bool = True) -> CompiledStep:
    with torch.device("meta" if on_meta else "cpu"):
        model = Net()
    options: dict[str, Any] = {"loss": nn.functional.mse_loss, "optimizer": dmc.optim.SGD(lr=0.1), "progress": False}
    return dmc.compile(model, example=(torch.randn(8, 4), torch.randn(8, 6)), verify=False, **options)


def weights_of(seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    state = Net().state_dict()
    state["norm.running_mean"].normal_()
    return {name: tensor.clone() for name, tensor in state.items() if name != "back.weight"}


def shards(folder: Path, weights: dict[str, torch.Tensor]) -> Path:
    """Two files and an index, as `save_pretrained` writes them."""
    folder.mkdir()
    names = sorted(weights)
    parts = {"model-00001-of-00002.safetensors": names[:4], "model-00002-of-00002.safetensors": names[4:]}
    for file, own in parts.items():
        save_file({name: weights[name] for name in own}, folder / file)
    places = {name: file for file, own in parts.items() for name in own}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def model(step: CompiledStep) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in step.state_dict()["model"].items() if name != "back.weight"}
