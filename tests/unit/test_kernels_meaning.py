"""What the kernels are compared with means what the composites mean, dropout's bits included."""

from __future__ import annotations

import torch
from torch import Tensor

from dmc.importer import composites
from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import Parameter, Problem, TensorType, problem
from dmc.kernels.references.draws import Draws

SCALAR, SEED = TensorType("f32", ()), TensorType("i64", ())
ops = torch.ops.dmc
assert composites, "registers the operators"


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def sampled(wanted: Problem) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Operands and the reference's results."""
    implementation = implementation_of(wanted)
    operands = implementation.sample(wanted, Draws.of(0))
    return operands, implementation.reference(wanted, operands)


def assert_same(made: tuple[Tensor, ...], reference: tuple[Tensor, ...]) -> None:
    for composite, exact in zip(made, reference, strict=True):
        torch.testing.assert_close(composite.double(), exact, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_attention() -> None:
    q, level, bias = f32(2, 2, 11, 8), f32(2, 2, 11, 1), f32(1, 1, 11, 11)
    options: dict[str, Parameter] = {"p": 0.3, "scale": 0.4, "causal": True}
    operands, wanted = sampled(problem("attention", (q, q, q, bias, SEED, SEED), (q, level), **options))
    assert_same(ops.attention(*operands, 0.3, 0.4, True), wanted)
    types = (q, q, q, q, bias, q, level, SEED, SEED)
    operands, wanted = sampled(problem("attention_backward", types, (q, q, q), **options))
    assert_same(ops.attention_backward(*operands, 0.3, 0.4, True)[:3], wanted)


def test_cross_entropy() -> None:
    logits, target, level = f32(6, 9), TensorType("i64", (6,)), f32(6)
    options: dict[str, Parameter] = {"ignore_index": 2, "label_smoothing": 0.1}
    operands, wanted = sampled(problem("softmax_cross_entropy", (logits, target), (SCALAR, level), **options))
    assert_same(ops.softmax_cross_entropy(*operands, 2, 0.1), wanted)
    types = (SCALAR, logits, target, level)
    operands, wanted = sampled(problem("softmax_cross_entropy_backward", types, (logits,), **options))
    assert_same((ops.softmax_cross_entropy_backward(*operands, 2, 0.1),), wanted)


def test_gradient_of_an_embedding() -> None:
    operands, wanted = sampled(
        problem("embedding_backward", (f32(30, 4), TensorType("i64", (30,))), (f32(7, 4),), padding_index=1)
    )
    assert_same((ops.embedding_backward(*operands, 7, 1),), wanted)
