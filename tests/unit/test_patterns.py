"""Patterns take what means the same, types included, and leave what only looks alike."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx, nn

from dmc.importer.forward import patterns

EPS = 1e-6
Forward = Callable[[Tensor, Tensor], Tensor]


def _factor(x: Tensor) -> Tensor:
    return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)


def _of_wider_numbers(w: Tensor, x: Tensor) -> Tensor:
    x = x.bfloat16()
    return w.bfloat16() * (x * _factor(x.float())).bfloat16()


def _tanh(x: Tensor) -> Tensor:
    return 1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))


def _written_between(w: Tensor, x: Tensor) -> Tensor:
    x = x * 2.0
    factor, row = _factor(x), x[0]
    row.mul_(3.0)
    return w * (x * factor)


def _written_inside(w: Tensor, x: Tensor) -> Tensor:
    normal = x * _factor(x)
    normal[0].mul_(3.0)
    return w * normal


def _gelu_written(w: Tensor, x: Tensor) -> Tensor:
    x = x * w
    gate = _tanh(x)
    x[0].mul_(3.0)
    return 0.5 * x * gate


TAKEN: dict[str, Forward] = {
    "rms_norm": lambda w, x: w * (x * _factor(x)),
    "rms_norm_of_squares": lambda w, x: x * torch.rsqrt((x * x).mean(-1, True) + EPS) * w,
    "rms_norm_used_twice": lambda w, x: w * (x * _factor(x)) + _factor(x),
    "rms_norm_of_wider_numbers": _of_wider_numbers,
    "gelu": lambda w, x: 0.5 * x * _tanh(x) * w,
}
LEFT: dict[str, Forward] = {
    "cast_to_integers": lambda w, x: w * (x * _factor(x)).to(torch.int8),
    "cast_to_bfloat16": lambda w, x: w * (x * _factor(x)).bfloat16(),
    "cast_of_integers": lambda w, x: w * (x.to(torch.int32).float() * _factor(x.to(torch.int32).float())),
    "normalises_bfloat16": lambda w, x: w * (x.bfloat16() * _factor(x.bfloat16())),
    "written_between": _written_between,
    "written_inside": _written_inside,
    "no_keepdim": lambda w, x: w * (x.T * torch.rsqrt(x.pow(2).mean(-1) + EPS)).T,
    "other_dimension": lambda w, x: w * (x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + EPS)),
    "all_dimensions": lambda w, x: w * (x * torch.rsqrt(x.pow(2).mean([0, 1], keepdim=True) + EPS)),
    "eps_outside": lambda w, x: w * (x * (torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) + EPS)),
    "eps_scaled": lambda w, x: w * (x * torch.rsqrt(torch.add(x.pow(2).mean(-1, keepdim=True), EPS, alpha=2))),
    "mean_in_another_type": lambda w, x: w * (x * torch.rsqrt(x.pow(2).mean(-1, True, dtype=torch.float64) + EPS)),
    "weight_per_row": lambda w, x: w[:5, None] * (x * _factor(x)),
    "gelu_written": _gelu_written,
    "gelu_of_integers": lambda w, x: w * (0.5 * x.to(torch.int32) * _tanh(x.to(torch.int32))),
    "gelu_of_another": lambda w, x: 0.5 * x * _tanh(x * w),
}


class _Model(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1.0, 2.0, 6))
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.weight, x)


def _fused(forward: Forward) -> tuple[fx.GraphModule, bool]:
    """The exported graph of `forward` after the patterns, and whether one was taken."""
    model = _Model(forward)
    graph = torch.export.export(model, (torch.randn(5, 6),), strict=False).graph_module
    patterns.fuse(graph)
    targets = {str(node.target) for node in graph.graph.nodes} | {node.target for node in graph.graph.nodes}
    return graph, bool(targets & {patterns.whole_rms_norm, "dmc.gelu.default"})


def _agrees(forward: Forward, graph: fx.GraphModule) -> None:
    model, x = _Model(forward), torch.randn(5, 6)
    (result,) = graph(model.weight, x.clone())
    torch.testing.assert_close(result, model(x.clone()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    graph, is_taken = _fused(TAKEN[name])
    assert is_taken
    _agrees(TAKEN[name], graph)


@pytest.mark.parametrize("name", LEFT)
def test_left(name: str) -> None:
    graph, is_taken = _fused(LEFT[name])
    assert not is_taken
    _agrees(LEFT[name], graph)


def test_rms_norm_rounds_where_the_model_does() -> None:
    x, weight = torch.randn(64, 6).bfloat16(), torch.linspace(-1.0, 2.0, 6).bfloat16()
    wide = x.float()
    spelled = weight * (wide * _factor(wide)).bfloat16()
    assert torch.equal(patterns.whole_rms_norm(x, weight, EPS, True), spelled)
    assert not torch.equal(patterns.whole_rms_norm(x, weight, EPS, False), spelled)
