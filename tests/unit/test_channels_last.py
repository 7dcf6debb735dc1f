"""A step computes the same where images lie with their channels last, and hardly anything is transposed for it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc._mlir import ir
from dmc.analysis.kernels.contractions import is_contraction
from dmc.analysis.kernels.shapes import keeps_order
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import parse_pipeline, run_passes
from dmc.step_function import find_step
from dmc.walk import walk
from tests.partitioned import run_on_one_rank

BEFORE = "dm-absorb-casts,dm-inline-composites{keep_whole},canonicalize,cse,dm-unroll-loops,dm-drop-empty"
MOVING = "dm-channels-last{least=1}"
CHANNELS, CLASSES, SIDE, BATCH = 4, 5, 12, 11


class Block(nn.Module):
    """A block of a ResNet: strided, with a shortcut."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        options: Any = {"bias": False}
        self.first = nn.Conv2d(CHANNELS, 6, 3, stride, padding=1, **options)
        self.second = nn.Conv2d(6, 6, 3, padding=2, dilation=2, **options)
        self.shortcut = nn.Conv2d(CHANNELS, 6, 1, stride, **options)
        self.norms = nn.ModuleList(nn.BatchNorm2d(6) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.norms[2](self.shortcut(x)))


def resnet(stride: int = 2) -> nn.Module:
    """A stem that pools, a block, a mean over pixels and a layer."""
    stem = (
        nn.Conv2d(3, CHANNELS, 5, 2, padding=2, bias=False),
        nn.BatchNorm2d(CHANNELS),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    )
    return nn.Sequential(*stem, Block(stride), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, CLASSES))


class Mixed(nn.Module):
    """What reads images in other orders: concatenation, attention over pixels, a norm over channels, upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, CHANNELS, 3, padding=1), nn.Conv2d(7, 8, 3, 2)
        self.norm, self.last = nn.LayerNorm(8), nn.Conv2d(8, CLASSES, (2, 3))
        self.scale = nn.Parameter(torch.rand(1, CHANNELS, SIDE, SIDE))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([x, self.first(x) * self.scale], 1)
        y = self.norm(self.second(y).permute(0, 2, 3, 1))
        tokens = y.flatten(1, 2)
        tokens = functional.scaled_dot_product_attention(tokens, tokens, tokens)
        y = tokens.unflatten(1, y.shape[1:3]).permute(0, 3, 1, 2)
        y = functional.interpolate(functional.pad(y, (1, 0, 0, 2)), scale_factor=2, mode="nearest")
        return self.last(y)[:, :, 1:, ::2].amax((2, 3))


class Chosen(nn.Module):
    """Elements of images chosen by index, in both directions, and images that the step returns."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, CHANNELS, 3, padding=1) for channels in (3, CHANNELS))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x)
        y = y.gather(3, (y.detach().abs() * 3).long().clamp(0, SIDE - 1)).flip(2)
        y = self.second(y.cumsum(2))
        return y.amax((2, 3)), y


def _of_first(outputs: Any, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs[0] if isinstance(outputs, tuple) else outputs, targets)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16_MIXED])
@pytest.mark.parametrize(
    ("build", "optimizer", "transposed"),
    [
        (resnet, dmc.optim.SGD(lr=0.5, momentum=0.9), 6),
        (lambda: resnet(1), dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0), 6),
        (Mixed, dmc.optim.SGD(lr=0.5, weight_decay=0.1), 17),
        (Chosen, dmc.optim.SGD(lr=0.5), 24),
    ],
    ids=["strided", "plain", "mixed", "chosen"],
)
def test_a_step_gives_what_it_gave(
    context: Any, build: Callable[[], nn.Module], optimizer: Any, transposed: int, precision: Precision
) -> None:
    torch.manual_seed(0)
    model = build()
    inputs = (torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(0, CHANNELS, (BATCH,)))
    imported = import_step(model, _of_first, optimizer, inputs, precision, 1, 0, context)
    state = [tensor.detach().clone().numpy() for tensor in imported.state.values()]
    given = [*state, np.array([0.5], np.float32), np.array(0, np.int32), *(tensor.numpy() for tensor in inputs)]
    run_passes(imported.module, parse_pipeline(BEFORE))
    before = run_on_one_rank(imported.module, [each.copy() for each in given])
    run_passes(imported.module, parse_pipeline(MOVING))
    step = find_step(imported.module)
    assert not any(op.name.startswith("linalg.conv") for op in walk(step))
    moved = [op for op in walk(step) if op.name == "linalg.transpose" and _is_activation(op.results[0].type)]
    assert len(moved) <= transposed, [str(op.results[0].type) for op in moved]
    loops = [op for op in walk(step) if op.name == "linalg.generic" and not is_contraction(op)]
    assert all(keeps_order(op, i) for op in loops for i in range(len(op.operands))), "read, or written, out of order"
    if precision is Precision.BF16_MIXED and build is not Mixed:
        # Else weights are read as they are given; and one that is as large as an image joins it.
        read = [op.operands[0] for op in walk(step) if op.name == "linalg.transpose"]
        assert not any(BATCH not in value.type.shape for value in read if isinstance(value.owner, ir.Block)), "state"
    after = run_on_one_rank(imported.module, [each.copy() for each in given])
    tolerance = 1e-4 if precision is Precision.FP32 else 2e-2
    for wanted, found in zip(before, after, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def _is_activation(type_: Any) -> bool:
    """Whether a type is that of images of the batch."""
    return len(type_.shape) == 4 and BATCH in type_.shape and prod(type_.shape) > BATCH * SIDE
