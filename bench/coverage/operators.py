"""The differentiable operators of PyTorch's `op_db`, with samples of float32."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from bench.coverage.steps import Sample


def names() -> list[str]:
    """Every differentiable operator's name."""
    return [op.formatted_name for op in op_db if op.supports_autograd and torch.float32 in op.supported_dtypes("cpu")]


def samples(name: str) -> list[Sample]:
    """The samples of an operator."""
    op: Any = next(op for op in op_db if op.formatted_name == name)
    given = op.sample_inputs("cpu", torch.float32, requires_grad=True)
    return [
        Sample(partial(_called, op, each.output_process_fn_grad), (each.input, *each.args), each.kwargs)
        for each in given
    ]


def _called(op: Any, processed: Any, *args: Any, **kwargs: Any) -> Any:
    # Where results are not unique, such as eigenvectors, a sample says what of them is.
    return processed(op(*args, **kwargs))
