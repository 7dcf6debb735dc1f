"""Constant masks become parameters of attention; all others are unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import transformers
from torch import Tensor, fx, nn
from torch.nn.functional import scaled_dot_product_attention

from dmc.importer.forward.attention.masks import recognise_masks

SIZE = 6
Mask = Callable[[Tensor], Tensor]


def _lower() -> Tensor:
    return torch.arange(SIZE)[None, :] <= torch.arange(SIZE)[:, None]


def _written(_: Tensor) -> Tensor:
    mask = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    mask.fill_diagonal_(True)
    return mask


def _written_through_a_view(_: Tensor) -> Tensor:
    mask = torch.ones(SIZE, SIZE, dtype=torch.bool).tril()
    mask.view(-1).mul_(True)
    return mask


def _written_in_a_region(_: Tensor) -> Tensor:
    mask = torch.ones(SIZE, SIZE, dtype=torch.bool).tril()
    with torch.no_grad():
        mask.view(-1).mul_(True)
    return mask


CAUSAL: dict[str, Mask] = {
    "compared": lambda x: _lower(),
    "tril": lambda x: torch.ones(SIZE, SIZE, dtype=torch.bool).tril(),
    "broadcast": lambda x: _lower().expand(2, 1, SIZE, SIZE),
    "added": lambda x: torch.where(_lower(), 0.0, -math.inf),
    "of packed sequences": lambda x: _lower() & (torch.zeros(SIZE)[None, :] == torch.zeros(SIZE).cumsum(0)[:, None]),
}


def _written_after_it_was_combined(x: Tensor) -> Tensor:
    mask = x[:, :, None, :, 0] > 0
    both = mask & torch.ones(1, 1, SIZE, 1, dtype=torch.bool)
    mask.mul_(False)
    return both


LEFT: dict[str, Mask] = {
    "of the input": lambda x: _lower() & (x[0, 0, :, :1] > 0).t(),
    "strictly above": lambda x: torch.ones(SIZE, SIZE, dtype=torch.bool).tril(-1),
    "a bias": lambda x: torch.where(_lower(), 0.5, -math.inf),
    "a large number, not infinity": lambda x: torch.where(_lower(), 0.0, -1e9),
    "written": _written,
    "written through a view": _written_through_a_view,
    "written in a region of another mode": _written_in_a_region,
    "random": lambda x: torch.rand(SIZE, SIZE) > -1.0,
    "written after it was combined": _written_after_it_was_combined,
    "of numbers": lambda x: torch.logical_and(x[:, :, None, :, 0], torch.ones(1, 1, SIZE, 1, dtype=torch.bool)),
    "of fewer dimensions": lambda x: (x[0, :, :1, 0] > -9).expand(2, 1, SIZE, SIZE),
}


PADDED: dict[str, Mask] = {
    "expanded": lambda x: (x[:, :, None, :, 0] > -9).expand(2, 1, SIZE, SIZE),
    "of all rows": lambda x: (torch.arange(SIZE)[None, None, :, None] >= 0) & (x[:, :, None, :, 0] > -9),
    "first": lambda x: (x[:, :, None, :, 0] > -9) & torch.ones(1, 1, SIZE, SIZE, dtype=torch.bool),
}


class Attention(nn.Module):
    """Attends with a mask of its own."""

    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        return scaled_dot_product_attention(x, x, x, attn_mask=self.mask(x))


def _attention(model: nn.Module, *args: Tensor) -> fx.Node:
    graph = torch.export.export(model, args).graph_module
    recognise_masks(graph)
    graph.recompile()
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.scaled_dot_product_attention.default)
    inputs = torch.randn(2, 1, SIZE, 4)
    torch.testing.assert_close(graph(inputs)[0], model(inputs))
    return node


@pytest.mark.parametrize("mask", CAUSAL)
def test_a_causal_mask_is_recognised(mask: str) -> None:
    node = _attention(Attention(CAUSAL[mask]), torch.randn(2, 1, SIZE, 4))
    assert node.args[3:] == (None, 0.0, True)


def test_a_mask_that_hides_nothing_is_left_out() -> None:
    node = _attention(Attention(lambda x: torch.zeros(SIZE, SIZE)), torch.randn(2, 1, SIZE, 4))
    assert node.args[3:] == (None, 0.0, False)


@pytest.mark.parametrize("mask", LEFT)
def test_any_other_mask_is_left(mask: str) -> None:
    torch.manual_seed(0)
    node = _attention(Attention(LEFT[mask]), torch.randn(2, 1, SIZE, 4))
    assert isinstance(node.args[3] if len(node.args) > 3 else node.kwargs["attn_mask"], fx.Node)


@pytest.mark.parametrize("mask", PADDED)
def test_a_mask_that_is_the_same_for_every_row_is_a_row(mask: str) -> None:
    node = _attention(Attention(PADDED[mask]), torch.randn(2, 1, SIZE, 4))
    narrow = node.args[3]
    assert isinstance(narrow, fx.Node)
    assert narrow.meta["val"].shape == (2, 1, 1, SIZE)


def test_the_masks_of_bert_are_rows() -> None:
    config = transformers.BertConfig(vocab_size=16, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    tokens = torch.zeros(2, 8, dtype=torch.long)
    graph = torch.export.export(transformers.BertModel(config), (tokens, tokens + 1)).graph_module
    recognise_masks(graph)
    nodes = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.scaled_dot_product_attention.default)
    masks = [node.args[3] for node in nodes]
    assert [each.meta["val"].shape for each in masks if isinstance(each, fx.Node)] == [(2, 1, 1, 8)] * 2


def test_the_masks_of_gpt2_are_recognised() -> None:
    config = transformers.GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=2, n_head=2, use_cache=False)
    graph = torch.export.export(transformers.GPT2LMHeadModel(config), (torch.zeros(2, 8, dtype=torch.long),))
    recognise_masks(graph.graph_module)
    nodes = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.scaled_dot_product_attention.default)
    assert [node.args[5] for node in nodes] == [True, True]
