"""What PyTorch does for the same work: for each kind of problem, ways to compute it, on the same operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._functorch import config as functorch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from dmc.kernels.problem import Problem

Work = Callable[[], Any]
Operands = tuple[Tensor, ...]

_BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


# The same gradients are computed again and again from what one forward pass has kept.
functorch.donated_buffer = False


def peers(problem: Problem) -> Mapping[str, Callable[[Operands], Work]]:
    """Ways of PyTorch by name; each prepares its work on operands, and fails where PyTorch cannot do it."""
    kind = problem.kind
    if kind in ("attention", "attention_backward"):
        return {name: partial(_attention, problem, backend) for name, backend in _BACKENDS.items()}
    if kind.startswith("softmax_cross_entropy"):
        return {name: partial(_loss, problem, name == "compile") for name in ("eager", "compile")}
    ways: dict[str, Callable[[Problem, Operands], Work]] = {
        "embedding_backward": _embedding,
        "expert_order": _order,
        "grouped_product": _groups,
        "grouped_outer_product": _outer_groups,
    }
    return {"eager": partial(ways[kind], problem)}


def _attention(problem: Problem, backend: SDPBackend, operands: Operands) -> Work:
    backward = problem.kind == "attention_backward"
    q, k, v, *bias = operands[1:-4] if backward else operands[:-2]
    options: dict[str, Any] = {
        "attn_mask": bias[0].to(q.dtype) if bias else None,
        "dropout_p": problem.number("p"),
        "is_causal": bool(problem.get("causal", False)),
        "scale": problem.number("scale"),
        "enable_gqa": q.shape[1] != k.shape[1],
    }
    inputs = tuple(tensor.detach().requires_grad_(backward) for tensor in (q, k, v))

    def forward() -> Tensor:
        with sdpa_kernel([backend]):
            return F.scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], **options)

    if not backward:
        return forward
    out = forward()
    return lambda: torch.autograd.grad(out, inputs, operands[0], retain_graph=True)


def _loss(problem: Problem, compiled: bool, operands: Operands) -> Work:
    kind = problem.kind.removeprefix("softmax_cross_entropy")
    logits, target = operands[0 if kind == "" else 1], operands[1 if kind == "" else 2]
    logits = logits.detach().requires_grad_(kind != "")

    def expression(logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits.float(), target, reduction="sum")

    function = torch.compile(expression) if compiled else expression
    if kind == "":
        return lambda: function(logits, target)
    if kind == "_both":
        return lambda: torch.autograd.grad(function(logits, target), logits)
    loss = function(logits, target)
    return lambda: torch.autograd.grad(loss, logits, retain_graph=True)


def _embedding(problem: Problem, operands: Operands) -> Work:
    dy, index = operands
    rows = problem.results[0].shape[0]
    valid = index.clamp(0, rows - 1)
    return lambda: torch.ops.aten.embedding_dense_backward(dy, valid, rows, -1, False)


def _order(problem: Problem, operands: Operands) -> Work:
    return lambda: torch.sort(operands[0], dim=1, stable=True)


def _groups(problem: Problem, operands: Operands) -> Work:
    rows, matrices, _, ends = operands
    own, offsets = matrices.transpose(1, 2) if problem.get("turned", False) else matrices, ends[0].int()
    return lambda: F.grouped_mm(rows[0], own, offs=offsets)


def _outer_groups(problem: Problem, operands: Operands) -> Work:
    left, right, _, ends = operands
    offsets = ends[0].int()
    return lambda: F.grouped_mm(left[0].t(), right[0], offs=offsets)
