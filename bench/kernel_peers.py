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
    if "norm" in kind:
        names = ("compile",) if kind.startswith("add_") else ("eager", "compile")
        return {name: partial(_norm, problem, name == "compile") for name in names}
    if kind.startswith("softmax_cross_entropy"):
        return {name: partial(_loss, problem, name == "compile") for name in ("eager", "compile")}
    ways: dict[str, Callable[[Problem, Operands], Work]] = {
        "optimizer_update_adamw": _adamw,
        "sum_of_squares": _squares,
        "embedding_backward": _embedding,
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


def _norm(problem: Problem, compiled: bool, operands: Operands) -> Work:
    """Forward and backward passes of the expression that PyTorch would be given."""
    backward, added = problem.kind.endswith("_backward"), problem.kind.startswith("add_")
    layer, p = "layer_norm" in problem.kind, problem.number("p")
    x = operands[2 if added else 1] if backward else operands[1 if added else 0]
    weight = operands[(3 if added else 2) if backward else (2 if added else 1)].detach().requires_grad_(backward)
    base = x.detach().requires_grad_(backward)
    branch = torch.randn_like(x, dtype=torch.bfloat16).requires_grad_(backward)
    width = (x.shape[-1],)

    def expression(branch: Tensor, base: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        total = base + F.dropout(branch, p) if added else base
        y = F.layer_norm(total, width, weight, bias, 1e-5) if layer else F.rms_norm(total, width, weight, 1e-5)
        return total, y.to(torch.bfloat16)

    bias = torch.zeros_like(weight).requires_grad_(backward)
    function = torch.compile(expression) if compiled else expression
    if not backward:
        return lambda: function(branch, base, weight, bias)
    total, y = function(branch, base, weight, bias)
    wanted = [base, weight, *([bias] if layer else []), *([branch] if added else [])]
    outputs = [y, total] if added else [y]
    slopes = [operands[0], *([operands[1]] if added else [])]
    return lambda: torch.autograd.grad(outputs, wanted, slopes, retain_graph=True)


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


def _adamw(problem: Problem, operands: Operands) -> Work:
    """The fused update, and the copies that autocast makes of the weights anew in every step."""
    count = int(problem.number("tensors"))
    parameters = [tensor.clone().requires_grad_() for tensor in operands[:count]]
    for parameter, gradient in zip(parameters, operands[count : 2 * count], strict=True):
        parameter.grad = gradient
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, fused=True, capturable=True)
    optimizer.step()

    def work() -> None:
        optimizer.step()
        for parameter in parameters:
            parameter.detach().to(torch.bfloat16)

    return work


def _squares(problem: Problem, operands: Operands) -> Work:
    tensors = list(operands[:-1])
    return lambda: torch.nn.utils.get_total_norm(tensors, foreach=True)


def _embedding(problem: Problem, operands: Operands) -> Work:
    dy, index = operands
    rows = problem.results[0].shape[0]
    valid = index.clamp(0, rows - 1)
    return lambda: torch.ops.aten.embedding_dense_backward(dy, valid, rows, -1, False)
