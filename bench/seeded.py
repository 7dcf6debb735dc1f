"""Parameters as at the start of training, the same on every machine and for every system."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn


def seeded(build: Callable[[float], nn.Module]) -> Mapping[str, np.ndarray]:
    """By name, tied ones under each of their names: normal with a deviation of 0.02, scales around 1."""
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    with torch.device("meta"):
        net = build(0.0)
    names = {id(tensor): name for name, tensor in reversed(list(net.named_parameters(remove_duplicate=False)))}
    for name, tensor in net.named_parameters(remove_duplicate=False):
        if names[id(tensor)] in found:
            found[name] = found[names[id(tensor)]]
            continue
        is_scale = tensor.dim() == 1 and name.endswith("weight")
        found[name] = 0.02 * random.standard_normal(tuple(tensor.shape), np.float32) + np.float32(is_scale)
    return found
