"""Gradients that a model takes itself, as for a gradient penalty (`torch.autograd.grad(…, create_graph=True)`): export
records each as a node, and `differentiate` takes it, so that the gradient of the loss goes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer.python.calls import PythonCalls
from dmc.importer.torch_internals import is_batchedtensor, without_torch_functions


def noted_gradient(calls: PythonCalls, given: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Adds a node for `torch.autograd.grad(**given)`; returns tensors in the place of gradients.

    Raises ImportFailure for what a compiled step cannot do.
    """
    inputs = [given["inputs"]] if isinstance(given["inputs"], Tensor) else list(given["inputs"])
    if given["is_grads_batched"] or not all(isinstance(each, Tensor) for each in inputs):
        fact = "takes gradients in batches, or of edges of the graph"
        raise ImportFailure(None, fact, hint="take the gradients of tensors, one after the other")
    every = pytree.tree_leaves((given["outputs"], inputs, given["grad_outputs"]))
    if any(isinstance(each, Tensor) and is_batchedtensor(each) for each in every):
        raise ImportFailure(None, "takes a gradient inside torch.vmap", hint="take it of all samples at once")
    for leaf in (each for each in inputs if each.is_leaf and each.requires_grad):
        # A graph does not say which tensors require a gradient, and operations between here and there must know.
        calls.note(("a tensor's gradient", _require), (leaf,), (), is_early=True)
    with proxy_tensor.disable_proxy_modes_tracing(), without_torch_functions():
        results = tuple(torch.zeros_like(each) for each in inputs)
        if given["create_graph"]:
            results = tuple(each.requires_grad_().clone() for each in results)
    options = [given[name] for name in ("grad_outputs", "create_graph", "allow_unused", "materialize_grads")]
    return calls.note(("torch.autograd.grad", _taken), (given["outputs"], inputs, *options), results)


def gradient_and_value(
    function: Callable[..., Any], numbers: int | Sequence[int], has_aux: bool, args: tuple[Any, ...], kwargs: Any
) -> tuple[Any, Any]:
    """`torch.func.grad_and_value`, and with it `torch.func.grad`, by `torch.autograd.grad`."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        own, leaves, tree = _varied(args, numbers)
        result = function(*own, **kwargs)
        value = result[0] if has_aux else result
        found = torch.autograd.grad(value, leaves, create_graph=again, retain_graph=True, materialize_grads=True)
    return pytree.tree_unflatten(list(found), tree), result if again else _constant(result)


def vector_jacobian_product(
    function: Callable[..., Any], *primals: Any, argnums: int | Sequence[int] | None = None, has_aux: bool = False
) -> tuple[Any, ...]:
    """`torch.func.vjp`, for all of `primals` or those that `argnums` counts."""
    outer = torch.is_grad_enabled()
    with torch.enable_grad():
        own, leaves, tree = _varied(primals, range(len(primals)) if argnums is None else argnums)
        result = function(*own)
    value, *aux = result if has_aux else (result,)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        again = outer and (torch.is_grad_enabled() if create_graph is None else create_graph)
        found = torch.autograd.grad(
            pytree.tree_leaves(value),
            leaves,
            pytree.tree_leaves(cotangents),
            retain_graph=True,
            create_graph=again,
            materialize_grads=True,
        )
        return pytree.tree_unflatten(list(found), tree)

    return (value, pull, *aux) if outer else (_constant(value), pull, *map(_constant, aux))


def _varied(args: Sequence[Any], numbers: int | Sequence[int]) -> tuple[list[Any], list[Any], pytree.TreeSpec]:
    """The arguments, those that `numbers` counts as tensors of their own; and these, taken apart."""
    own = list(args)
    for number in [numbers] if isinstance(numbers, int) else numbers:
        own[number] = pytree.tree_map_only(Tensor, _variable, args[number])
    return own, *pytree.tree_flatten(own[numbers] if isinstance(numbers, int) else tuple(own[i] for i in numbers))


def _variable(tensor: Tensor) -> Tensor:
    """A tensor of its own, through which an outer gradient goes on."""
    return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().clone().requires_grad_()


def _constant(result: Any) -> Any:
    """What a transform returns where gradients are off."""
    return pytree.tree_map_only(Tensor, torch.Tensor.detach, result)


def no_forward_mode() -> Any:
    """Replaces what the transforms of `torch.func` in forward mode begin with."""
    raise ImportFailure(
        None,
        "a transform of torch.func that differentiates in forward mode is not supported",
        hint="use torch.func.grad or vjp, or torch.autograd.grad(…, create_graph=True)",
    )


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
