"""The graphs of a step, from the exported to the decomposed one, compute what eager does: none fails to run."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx import traceback

import dmc
from dmc.importer.forward.precision import Precision
from dmc.runtime.comparison.tolerance import TOLERANCE
from dmc.verification import Request, graph_places
from dmc.verification.graph_stages import GraphStages


class Pooled(nn.Module):
    """The gradient of the pool is a view of one number for each channel, whose strides are traced otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.pool, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        """f32[n, 1, h, w] → f32[n, 3]"""
        return self.head(self.pool(torch.relu(self.convolution(x))).flatten(1))


def test_no_graph_fails() -> None:
    example = (torch.randn(2, 1, 6, 6), torch.tensor([0, 2]))
    loss, optimizer = nn.functional.cross_entropy, dmc.optim.SGD(lr=0.1)
    request = Request.of(Pooled(), loss, optimizer, example, Precision.FP32, 1, 0)
    stages = GraphStages(request, 0, TOLERANCE["fp32"])
    for stage in (stages.exported, stages.patterns, stages.rules, stages.decomposed):
        assert stage().differences == []
    assert graph_places.of_decomposition(stages.graphs, stages.tolerance) == ""
    assert not traceback.current_meta, "what is traced next would inherit these origins"
