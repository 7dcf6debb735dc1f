"""Gradients taken inside the step, of the operators that PyTorch differentiates twice, with samples of float32."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from bench.coverage import operators
from bench.coverage.steps import Sample

# Its gradient is made in the forward pass, where eager takes it for a constant: its own second one is another with
# chunks than without.
_CONSTANT = {"nn_functional_linear_cross_entropy_chunked"}


def names() -> list[str]:
    """Every operator that is differentiable twice."""
    twice = {op.formatted_name for op in op_db if op.supports_gradgrad} - _CONSTANT
    return [name for name in operators.names() if name in twice]


def samples(name: str) -> list[Sample]:
    """The samples of an operator."""
    return [Sample(partial(_gradient, each.call), each.args, each.kwargs) for each in operators.samples(name)]


def _gradient(call: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """That of the squares of the results, for every argument that has one."""
    leaves = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor) and each.requires_grad]
    results = [each for each in pytree.tree_leaves(call(*args, **kwargs)) if _has_gradient(each)]
    squares = [(each * each).sum() for each in results]
    return torch.autograd.grad(squares, leaves, create_graph=True, materialize_grads=True)


def _has_gradient(result: Any) -> bool:
    return isinstance(result, Tensor) and result.is_floating_point() and result.requires_grad
