"""Gradients that a model takes itself, as for a gradient penalty (`torch.autograd.grad(…, create_graph=True)`): export
records each as a node, and `differentiate` takes it, so that the gradient of the loss goes through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental import proxy_tensor

from dmc.errors import ImportFailure
from dmc.importer.python.calls import PythonCalls
from dmc.importer.torch_internals import without_torch_functions


def noted_gradient(calls: PythonCalls, given: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Adds a node for `torch.autograd.grad(**given)`; returns tensors in the place of gradients.

    Raises ImportFailure for what a compiled step cannot do.
    """
    inputs = [given["inputs"]] if isinstance(given["inputs"], Tensor) else list(given["inputs"])
    if given["is_grads_batched"] or not all(isinstance(each, Tensor) for each in inputs):
        fact = "takes gradients in batches, or of edges of the graph"
        raise ImportFailure(None, fact, hint="take the gradients of tensors, one after the other")
    for leaf in (each for each in inputs if each.is_leaf):
        # A graph does not say which tensors require a gradient, and operations between here and there must know.
        calls.note(("a tensor's gradient", _require), (leaf,), (), is_early=True)
    with proxy_tensor.disable_proxy_modes_tracing(), without_torch_functions():
        results = tuple(torch.zeros_like(each) for each in inputs)
        if given["create_graph"]:
            results = tuple(each.requires_grad_().clone() for each in results)
    options = [given[name] for name in ("grad_outputs", "create_graph", "allow_unused", "materialize_grads")]
    return calls.note(("torch.autograd.grad", _taken), (given["outputs"], inputs, *options), results)


def _require(tensor: Tensor) -> None:
    if not tensor.requires_grad:
        tensor.requires_grad_()


def _taken(
    outputs: Any, inputs: Sequence[Tensor], grad_outputs: Any, again: bool, allow_unused: bool | None, zeros: bool
) -> list[Tensor]:
    # The gradient of the loss reads the graph, too.
    found: Any = torch.autograd.grad(
        outputs, inputs, grad_outputs, True, again, allow_unused=allow_unused, materialize_grads=zeros
    )
    if any(each is None for each in found):
        fact = "a gradient of torch.autograd.grad is None: nothing depends on its tensor"
        raise ImportFailure(None, fact, hint="pass materialize_grads=True, for zeros")
    return list(found)
