"""Conversions that undo each other are left out; a small slice of a converted tensor is taken before the conversion."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from dmc.importer.decompositions import conversions
from dmc.importer.differentiate import trace

CONVERT, SLICE = torch.ops.prims.convert_element_type.default, torch.ops.aten.slice.Tensor


@pytest.mark.parametrize(("size", "is_exchanged"), [(2, True), (4, False)])
def test_small_slices_are_converted(size: int, is_exchanged: bool) -> None:
    def computed(x: Tensor) -> Tensor:
        return CONVERT(x, torch.float32)[:size, 1:3:2]

    x = torch.randn(8, 5).bfloat16()
    graph = make_fx(computed, tracing_mode="fake")(x)
    conversions.before_conversions(graph.graph)
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


@pytest.mark.parametrize(
    ("narrow", "wide", "is_undone"),
    [
        (torch.bfloat16, torch.float32, True),
        (torch.float16, torch.float32, True),
        (torch.float32, torch.float64, True),
        (torch.bfloat16, torch.float16, False),
        (torch.float32, torch.bfloat16, False),
        (torch.int32, torch.float32, False),
    ],
)
def test_a_conversion_to_a_wider_type_and_back_is_left_out(
    narrow: torch.dtype, wide: torch.dtype, is_undone: bool
) -> None:
    def computed(x: Tensor) -> tuple[Tensor, Tensor]:
        there = CONVERT(x, wide)
        return CONVERT(there, narrow) * 2, there

    x = (torch.randn(64) * 1e5).to(narrow)
    graph = trace(computed, [x])
    assert len(graph.graph.find_nodes(op="call_function", target=CONVERT)) == 2 - is_undone
    for found, wanted in zip(graph(x), computed(x), strict=True):
        assert torch.equal(found, wanted)


def test_a_low_rank_product_in_f32_reads_what_its_layer_reads() -> None:
    """As under autocast: no copy of the input in another type, forward or backward."""

    def computed(x: Tensor, weight: Tensor, down: Tensor) -> Tensor:
        return x @ weight + x.float().bfloat16() @ down.bfloat16()

    def both(x: Tensor, weight: Tensor, down: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(computed(x, weight, down).sum(), [x, down]))

    x, weight, down = torch.randn(4, 8).bfloat16(), torch.randn(8, 6).bfloat16(), torch.randn(8, 6)
    graph = trace(both, [x.requires_grad_(), weight, down.requires_grad_()])
    converted = graph.graph.find_nodes(op="call_function", target=CONVERT)
    assert all(node.args[0].meta["val"].shape != x.shape for node in converted)
