"""A small slice of a converted tensor is taken before the conversion; a large one is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from dmc.importer.decompositions import slices
from dmc.importer.differentiate import trace

CONVERT, SLICE = torch.ops.prims.convert_element_type.default, torch.ops.aten.slice.Tensor


@pytest.mark.parametrize(("size", "is_exchanged"), [(2, True), (4, False)])
def test_small_slices_are_converted(size: int, is_exchanged: bool) -> None:
    def computed(x: Tensor) -> Tensor:
        return CONVERT(x, torch.float32)[:size, 1:3:2]

    x = torch.randn(8, 5).bfloat16()
    graph = make_fx(computed, tracing_mode="fake")(x)
    slices.before_conversions(graph.graph)
    targets = [node.target for node in graph.graph.nodes if node.target in (CONVERT, SLICE)]
    assert (targets[-1] is CONVERT) == is_exchanged
    graph.graph.eliminate_dead_code()
    graph.recompile()
    assert torch.equal(graph(x), computed(x))


def test_a_variance_reads_its_sample_before_the_conversion() -> None:
    def computed(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.var_mean(x.float(), [0, 2, 3])

    x = torch.randn(64, 16, 64, 64).bfloat16()
    graph = trace(computed, [x])
    taken = [node for node in graph.graph.nodes if node.target is SLICE]
    assert taken and all(node.meta["val"].dtype is torch.bfloat16 for node in taken)
    for found, wanted in zip(graph(x), torch.var_mean(x.double(), [0, 2, 3]), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
