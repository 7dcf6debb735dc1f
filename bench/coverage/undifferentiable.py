"""The operators of PyTorch's `op_db` that have no gradient: their results, beside parameters that have one."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from bench.coverage.steps import Sample

# Memory that nothing has written, and functions compiled for a GPU when they are called.
_OTHERS = ("empty", "jiterator", "triton")
_TYPES = (torch.float32, torch.int64, torch.bool)


def names() -> list[str]:
    """The name of every operator without a gradient, or without one for float32, whose results are determined."""
    found = [op for op in op_db if _type(op) is not None and not _is_differentiable(op)]
    return [op.formatted_name for op in found if not any(each in op.name for each in _OTHERS)]


def samples(name: str) -> list[Sample]:
    """The samples of an operator."""
    op: Any = next(op for op in op_db if op.formatted_name == name)
    parameter = torch.linspace(-1.0, 1.0, 5, requires_grad=True)
    return [
        Sample(partial(_called, op), (parameter, each.input, *each.args), each.kwargs)
        for each in op.sample_inputs("cpu", _type(op))
    ]


def _is_differentiable(op: Any) -> bool:
    return op.supports_autograd and torch.float32 in op.supported_dtypes("cpu")


def _type(op: Any) -> torch.dtype | None:
    return next((each for each in _TYPES if each in op.supported_dtypes("cpu")), None)


def _called(op: Any, parameter: Tensor, *args: Any, **kwargs: Any) -> Any:
    result = op(*args, **kwargs)
    # The step reads what it can, so that nothing is dropped as unused.
    read = [each.float().sum() for each in pytree.tree_leaves(result) if isinstance(each, Tensor)]
    return parameter * (1.0 + sum(each.nan_to_num(0.0, 0.0, 0.0).clamp(-9.0, 9.0) for each in read)), result
