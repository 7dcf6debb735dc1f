"""The modules of PyTorch's `module_db`, in training mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.testing._internal.common_modules import module_db

from bench.coverage.steps import Sample


def names() -> list[str]:
    """Every module's name."""
    return [info.formatted_name for info in module_db]


def samples(name: str) -> list[Sample]:
    """The samples of a module."""
    info: Any = next(info for info in module_db if info.formatted_name == name)
    given = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True)
    return [_sample(info.module_cls, each) for each in given if each.forward_input is not None]


def _sample(kind: Any, given: Any) -> Sample:
    built, called = given.constructor_input, given.forward_input
    module = kind(*built.args, **built.kwargs)
    # Lazy modules take their shapes from a first call.
    with torch.no_grad():
        module(*called.args, **called.kwargs)
    return Sample(_without_draws(module.train()), called.args, called.kwargs)


def _without_draws(module: nn.Module) -> nn.Module:
    """The same without dropout: a compiled step draws numbers of its own."""
    for each in module.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
        if isinstance(each, nn.MultiheadAttention | nn.RNNBase):
            each.dropout = 0.0
    return module
