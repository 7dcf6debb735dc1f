"""Form imported on its own: imported, and run by the interpreter without any later pass or compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor, nn

import dmc
from dmc._mlir import ir
from dmc.importer.capture.capture import Loss
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.interpreter.bodies import Bodies


def interpreted_step(
    model: nn.Module, loss: Loss, example: Sequence[Tensor], context: ir.Context, precision: Precision
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """One step of gradient descent at rate 1: the outputs "loss", "finite", "aux0" …, and the new parameters."""
    sgd = dmc.optim.SGD(lr=1.0)
    step = import_step(model, loss, sgd, tuple(example), precision, accumulate=1, seed=0, context=context)
    state = [_array(step.state[spec.name]) for spec in step.signature.state]
    controls = [np.ones(1, np.float32), np.zeros((), np.int32)]
    results = [_tensor(each) for each in _run(step.module, [*state, *controls, *map(_array, example)])]
    written = [spec.name for spec in step.signature.state if spec.mutated]
    outputs = dict(zip([spec.name for spec in step.signature.outputs], results[len(written) :], strict=True))
    return outputs, dict(zip(written, results, strict=False))


def _run(module: ir.Module, operands: list[Any]) -> list[Any]:
    return Bodies.of(module).call("step", operands)


def _array(tensor: Tensor) -> Any:
    detached = tensor.detach()
    return detached.float().numpy().astype(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else detached.numpy()


def _tensor(array: Any) -> Tensor:
    """bf16 as f32, since numpy has no bf16."""
    return torch.as_tensor(np.asarray(array, np.float32) if array.dtype == ml_dtypes.bfloat16 else np.asarray(array))
