"""Functions computed through dmc's rules and decompositions, in PyTorch itself, beside what PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dmc.importer.decompositions.decompositions import MODULES
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.rules import DECLINE, RULES

_TABLE: dict[Any, Callable[..., Any]] = {key: own for module in MODULES for key, own in module.OWN.items()}


class _Decomposed(TorchDispatchMode):
    """Inside, operations are what their decompositions say; `used`: those that had one."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (own := _TABLE.get(func)) is not None:
            with self:
                result = own(*args, **(kwargs or {}))
            if result is not NotImplemented:
                self.used.add(func)
                return result
        return func(*args, **(kwargs or {}))


def by_rule(target: Any, *args: Any, **options: Any) -> Any:
    """What the rule of an operation gives."""
    result = RULES[target](Randomness(torch.tensor(0), torch.tensor(0)), *args, **options)
    assert result is not DECLINE
    return result


def assert_same(own: Callable[..., Any], reference: Callable[..., Any], *tensors: Tensor, rtol: float = 1e-5) -> None:
    """Both give the same results, and the same gradients of floating operands; `own` is decomposed."""
    actual = _traced(own, tensors, decomposed=True)
    expected = _traced(reference, tensors, decomposed=False)
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=1e-5, equal_nan=True)


def assert_decomposes(function: Callable[..., Any], *tensors: Tensor, rtol: float = 1e-5) -> None:
    """`function` gives the same with decompositions as without them, and has some."""
    with torch.no_grad(), _Decomposed() as decomposed:
        function(*tensors)
    assert decomposed.used
    assert_same(function, function, *tensors, rtol=rtol)


def _traced(function: Callable[..., Any], tensors: Sequence[Tensor], decomposed: bool) -> list[Tensor | None]:
    leaves = [each.clone().requires_grad_(each.is_floating_point()) for each in tensors]
    trained = [each for each in leaves if each.requires_grad]
    if not decomposed:
        return _with_gradients(function(*leaves), trained)
    with _Decomposed():
        return _with_gradients(function(*leaves), trained)


def _with_gradients(results: Any, trained: list[Tensor]) -> list[Tensor | None]:
    every = list(results) if isinstance(results, tuple | list) else [results]
    # Each element counts differently, so that a gradient at the wrong place is seen.
    factors = [1.0 + torch.frac(torch.arange(each.numel()) * 0.618).reshape(each.shape) for each in every]
    terms = [(each * by).sum() for each, by in zip(every, factors, strict=True) if each.requires_grad]
    gradients = torch.autograd.grad(torch.stack(terms).sum(), trained, allow_unused=True) if terms else ()
    return [each.detach() for each in every] + list(gradients)
