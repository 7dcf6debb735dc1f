"""Composites compute in f32 whatever the type of their tensors: bf16 loses its digits on the way in and out only."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dmc.importer import composites
from dmc.importer.composites.cross_entropy import cross_entropy

assert composites.gelu  # Importing the package has registered them all.
dmc = torch.ops.dmc
INDEX = torch.arange(24) % 4
SEED, DRAW = torch.tensor(3), torch.tensor(1)

CASES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "gelu": lambda x, *_: dmc.gelu(x, "none"),
    "gelu-tanh": lambda x, *_: dmc.gelu(x, "tanh"),
    "layer_norm": lambda x, w, b: dmc.layer_norm(x, w, b, 1, 1e-5)[0],
    "rms_norm": lambda x, w, _: dmc.rms_norm(x, w, 1, 1e-6)[0],
    "dropout": lambda x, *_: dmc.dropout(x, SEED, DRAW, 0.3),
    "embedding": lambda x, *_: dmc.embedding(x, INDEX, -1),
    "cross_entropy": lambda x, *_: cross_entropy(x, INDEX, -100, 0.1, True),
}


def _rounded(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).bfloat16()


def _run(name: str, dtype: torch.dtype) -> list[Tensor]:
    """The value and the gradients, as bf16, of a case whose inputs are of `dtype` but of the same numbers."""
    inputs = [tensor.to(dtype).requires_grad_() for tensor in (_rounded(24, 17), _rounded(17), -_rounded(17))]
    value = CASES[name](*inputs)
    gradients = torch.autograd.grad(value, inputs, _rounded(*value.shape).to(dtype), materialize_grads=True)
    return [tensor.detach().bfloat16() for tensor in (value, *gradients)]


@pytest.mark.parametrize("name", CASES)
def test_bf16_in_bf16_out_and_f32_between(name: str) -> None:
    for narrow, wide in zip(_run(name, torch.bfloat16), _run(name, torch.float32), strict=True):
        assert torch.equal(narrow, wide)


def test_attention_takes_its_softmax_in_f32() -> None:
    q, k, v = _rounded(2, 5, 8), _rounded(2, 7, 8), _rounded(2, 7, 4)
    out, logsumexp = dmc.attention(q, k, v, None, SEED, DRAW, 0.0, 0.25, False)
    scores = (q @ k.transpose(-1, -2)).float() * 0.25
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(logsumexp, scores.logsumexp(-1, keepdim=True), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(out, scores.softmax(-1).bfloat16() @ v, rtol=2**-7, atol=2**-7)
