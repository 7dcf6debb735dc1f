"""What the kernels are compared with means what the composites mean, dropout's bits included."""

from __future__ import annotations

import torch
from torch import Tensor

from dmc import optim
from dmc.importer import composites
from dmc.importer.composites.optimizer_update import update_op
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


def test_normalisation() -> None:
    x, weight, statistic = f32(3, 4, 10), f32(10), f32(3, 4, 1)
    results = (x, statistic, statistic)
    operands, wanted = sampled(problem("layer_norm", (x, weight, weight), results, axes=1, eps=1e-3))
    assert_same(ops.layer_norm(*operands, 1, 1e-3), wanted)
    types = (x, x, weight, statistic, statistic)
    operands, wanted = sampled(problem("layer_norm_backward", types, (x, weight, weight), axes=1))
    assert_same(ops.layer_norm_backward(*operands, 1), wanted)
    operands, wanted = sampled(problem("rms_norm", (x, weight), (x, statistic), axes=1, eps=1e-3))
    assert_same(ops.rms_norm(*operands, 1, 1e-3), wanted)
    operands, wanted = sampled(problem("rms_norm_backward", (x, x, weight, statistic), (x, weight), axes=1))
    assert_same(ops.rms_norm_backward(*operands, 1), wanted)


def test_dropout_before_a_normalisation() -> None:
    x, weight, statistic = f32(3, 10), f32(10), f32(3, 1)
    types = (x, x, weight, SEED, SEED)
    operands, wanted = sampled(problem("add_rms_norm", types, (x, x, statistic), axes=1, eps=1e-3, p=0.4))
    branch, residual, scale, seed, draw = operands
    total = residual + ops.dropout(branch, seed, draw, 0.4)
    assert_same((total, *ops.rms_norm(total, scale, 1, 1e-3)), wanted)


def test_cross_entropy() -> None:
    logits, target, level = f32(6, 9), TensorType("i64", (6,)), f32(6)
    options: dict[str, Parameter] = {"ignore_index": 2, "label_smoothing": 0.1}
    operands, wanted = sampled(problem("softmax_cross_entropy", (logits, target), (SCALAR, level), **options))
    assert_same(ops.softmax_cross_entropy(*operands, 2, 0.1), wanted)
    types = (SCALAR, logits, target, level)
    operands, wanted = sampled(problem("softmax_cross_entropy_backward", types, (logits,), **options))
    assert_same((ops.softmax_cross_entropy_backward(*operands, 2, 0.1),), wanted)


def test_updates() -> None:
    x, flag = f32(4, 5), TensorType("i1", ())
    options: dict[str, Parameter] = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1, "tensors": 1}
    for kind, optimizer in (("optimizer_update_adam", optim.Adam), ("optimizer_update_adamw", optim.AdamW)):
        operands, wanted = sampled(
            problem(kind, (x, x, x, x, SCALAR, SCALAR, flag, SCALAR, SCALAR), (x,) * 3, **options)
        )
        settings = optimizer(lr=1.0, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.1)
        assert_same(update_op(settings, x.shape, 2)(*operands, *settings.constants().values()), wanted)
    operands, wanted = sampled(problem("sum_of_squares", (x, SCALAR), (SCALAR,)))
    assert_same((ops.sum_of_squares(*operands),), wanted)


def test_gradient_of_an_embedding() -> None:
    operands, wanted = sampled(
        problem("embedding_backward", (f32(30, 4), TensorType("i64", (30,))), (f32(7, 4),), padding_index=1)
    )
    assert_same((ops.embedding_backward(*operands, 7, 1),), wanted)
