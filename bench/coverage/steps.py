"""A case → a training step: the case between parameters and a loss that every element of its results takes part in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from dmc.importer.torch_internals import version
from dmc.optim import SGD
from tests.fuzz.train import Case

# The parameters after a step are those before minus the gradients.
OPTIMIZER = SGD(lr=1.0)


@dataclass(frozen=True)
class Sample:
    """One call: of a function or a module, on nested arguments. Tensors that require a gradient become parameters."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Input:
    """Stands for a tensor among the arguments: a parameter, a buffer, or an input of the step by its number."""

    name: str
    number: int | None = None


class _Call(nn.Module):
    """One sample; the tensors that are neither parameters nor buffers are given."""

    def __init__(self, sample: Sample, first: int, written: Collection[int]) -> None:
        super().__init__()
        self.call, self.inputs, self.written = sample.call, list[Tensor](), written
        leaves, self.tree = pytree.tree_flatten((sample.args, sample.kwargs))
        self.leaves = [self._leaf(leaf, f"x{i}", first) for i, leaf in enumerate(leaves)]

    def _leaf(self, leaf: Any, name: str, first: int) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if leaf.requires_grad:
            setattr(self, name, nn.Parameter(leaf.detach()))
            return _Input(name)
        if not leaf.numel() or id(leaf) in self.written:
            # A step takes no empty inputs, and writes into none.
            self.register_buffer(name, leaf)
            return _Input(name)
        self.inputs.append(leaf)
        return _Input(name, first + len(self.inputs) - 1)

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of the result."""
        leaves = [self._value(leaf, inputs) for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return [leaf for leaf in _tensors(self.call(*args, **kwargs)) if isinstance(leaf, Tensor)]

    def _value(self, leaf: Any, inputs: Sequence[Tensor]) -> Any:
        if not isinstance(leaf, _Input):
            return leaf
        # Some calls write into their arguments, which leaves do not allow.
        return getattr(self, leaf.name) if leaf.number is None else inputs[leaf.number]


class Step(nn.Module):
    """Samples side by side: the sum of all their results, each element by a factor of its own, and the results."""

    def __init__(self, samples: Sequence[Sample], written: Collection[int] = ()) -> None:
        super().__init__()
        self.calls, self.inputs = nn.ModuleList(), list[Tensor]()
        for sample in samples:
            call = _Call(sample, len(self.inputs), written)
            self.calls.append(call)
            self.inputs += call.inputs

    def forward(self, *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The loss, and what the samples gave."""
        results = [result for call in self.calls for result in call(inputs)]
        loss = sum((_weighted(result) for result in results if result.is_floating_point()), torch.zeros([]))
        return loss, [_returned(result.detach()) for result in results]


def case_of(samples: Sequence[Sample]) -> Case:
    """The step of some samples, and its inputs; what they write into, such as statistics, are buffers."""
    step = Step(samples)
    trial = Case(step, tuple(step.inputs), OPTIMIZER).fresh()
    # A sample may raise anything. What it does, it does again where `out_of_scope` runs it, which tells why.
    with torch.no_grad(), contextlib.suppress(Exception):
        trial.module(*trial.inputs)
    changed = [id(old) for old, new in zip(step.inputs, trial.inputs, strict=True) if version(new)]
    step = Step(samples, changed) if changed else step
    return Case(step, tuple(step.inputs), OPTIMIZER)


def widened(case: Case) -> Case:
    """The same in float64, as far as its types allow."""
    case = case.fresh()
    return Case(case.module.double(), tuple(_wide(each) for each in case.inputs), case.optimizer)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _weighted(result: Tensor) -> Tensor:
    # Factors between one half and one: a gradient at the wrong place is seen, and none vanishes.
    count = torch.arange(result.numel(), dtype=torch.float32).reshape(result.shape)
    return (result.float() * (1.0 - 0.5 * torch.frac(count * 0.618034))).sum()


def _returned(result: Tensor) -> Tensor:
    """What a step can return: no float64."""
    return result.float() if result.dtype == torch.float64 else result


def _tensors(result: Any) -> list[Any]:
    """Results may be mappings of `transformers`, which PyTorch's trees do not always know."""
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in _tensors(value)]
    if isinstance(result, tuple | list):
        return [leaf for value in result for leaf in _tensors(value)]
    return [result]
