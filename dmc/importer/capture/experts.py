"""The experts of `transformers`, while a model is exported: sorted by expert, each multiplies its rows only.

The library has several ways to compute the same, of which some loop over data; a model's configuration names one. Those
of Switch Transformers are modules, called in such a loop; those of Llama-4 multiply all tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_MODELS = "transformers.models"
# Ways of which this is one more. Others are a library's, or the user's own.
_WAYS = (None, "eager", "batched_mm", "grouped_mm")
_LIBRARY = "transformers."
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PLAIN = (bool, int, float, str, type(None))
_CONTAINERS = (dict, list, tuple, set)


@contextmanager
def own_experts(parts: int) -> Generator[None]:
    """Lets experts compute by `_experts`; without `transformers`, or in one of other names, nothing changes.

    parts: of the rows, each sorted alone.
    """
    with ExitStack() as patches:
        for module, owner, name, change in _REPLACED:
            found: Any = getattr(sys.modules.get(module), owner, None)
            if found is not None:
                patches.enter_context(mock.patch.object(found, name, change(getattr(found, name), parts)))
        yield


def _chosen_way(looked_up: Callable[..., Any], parts: int) -> Callable[..., Any]:
    """`ExpertsInterface.get_interface`."""

    def get_interface(self: Any, name: str | None, default: Callable[..., Any]) -> Callable[..., Any]:
        found = looked_up(self, name, default)

        def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
            is_documented = getattr(found, "__module__", "").startswith(_LIBRARY)
            is_own = name in _WAYS and is_documented and not module._is_expert_parallel
            return _experts(parts, module, *args, **kwargs) if is_own else found(module, *args, **kwargs)

        return forward

    return get_interface


def _switch(original: Callable[..., Any], parts: int) -> Callable[..., Any]:
    """The forward pass of Switch Transformers' experts: each token has one, or none beyond its capacity."""

    def forward(self: Any, hidden_states: Tensor, selected_experts: Tensor, routing_weights: Tensor) -> Tensor:
        experts = [self[f"expert_{i}"] for i in range(self.num_experts)]
        if selected_experts.shape[1] != 1 or not _are_alike(experts):
            return original(self, hidden_states, selected_experts, routing_weights)
        hit = selected_experts.squeeze(1)
        expert = torch.where(hit.sum(1) > 0, hit.argmax(1), self.num_experts)
        sorted_by = _Sorted.of(parts, expert.unsqueeze(1), self.num_experts)
        made = _called_once(experts, sorted_by, hidden_states)
        return sorted_by.combine(made * sorted_by.dispatch(routing_weights), hidden_states)

    return forward


def _llama4(original: Callable[..., Any], parts: int) -> Callable[..., Any]:
    """The forward pass of Llama-4's block, whose own multiplies all tokens, those of other experts by zero first."""

    def forward(self: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor]:
        if not _is_unchanged(self.router) or not _is_unchanged(self.experts):
            return original(self, hidden_states)
        x = hidden_states.reshape(-1, self.hidden_dim)
        scores, logits = self.router(x)
        index = logits.topk(self.top_k, dim=1).indices
        sorted_by = _Sorted.of(parts, index, self.num_experts)
        rows = sorted_by.dispatch(x) * sorted_by.dispatch(scores.gather(1, index).reshape(-1, 1))
        gate, up = sorted_by.linear(rows, self.experts.gate_up_proj, None, turned=False).chunk(2, dim=-1)
        made = sorted_by.linear(up * self.experts.act_fn(gate), self.experts.down_proj, None, turned=False)
        return self.shared_expert(x) + sorted_by.combine(made, x), logits

    return forward


def _is_unchanged(module: nn.Module) -> bool:
    """Whether a call of a module is what the library defines."""
    return type(module).__module__.startswith(_LIBRARY) and _is_plain(module)


def _is_plain(module: nn.Module) -> bool:
    """Whether a call of a module is one of its class's `forward` alone."""
    return "forward" not in vars(module) and not any(vars(module).get(name) for name in _HOOKS)


def _are_alike(experts: Sequence[nn.Module]) -> bool:
    """Whether experts differ in the numbers of their linear layers only, so that one can be called for all."""
    first = _structure(experts[0])
    return first is not None and all(_structure(each) == first for each in experts[1:])


def _structure(expert: nn.Module) -> list[Any] | None:
    """The types and the attributes of an expert's modules; None if one of them has what is no linear layer's, or does
    more when it is called."""
    found: list[Any] = []
    for name, module in expert.named_modules():
        has_tensors = any(True for _ in module.buffers(recurse=False)) or (
            type(module) is not nn.Linear and any(True for _ in module.parameters(recurse=False))
        )
        if has_tensors or not _is_plain(module):
            return None
        own = {key: _comparable(value) for key, value in vars(module).items() if key[0] != "_"}
        found.append((name, type(module), [key for key, _ in module.named_parameters(recurse=False)], own))
    return found


def _comparable(value: Any) -> Any:
    """What is equal for values that are: objects of no known type are only so to themselves."""
    return value if isinstance(value, _PLAIN) else repr(value) if isinstance(value, _CONTAINERS) else id(value)


# A module, a class in it and its method, and what takes the method's place.
_REPLACED: tuple[tuple[str, str, str, Callable[[Callable[..., Any], int], Callable[..., Any]]], ...] = (
    ("transformers.integrations.moe", "ExpertsInterface", "get_interface", _chosen_way),
    (f"{_MODELS}.switch_transformers.modeling_switch_transformers", "SwitchTransformersExperts", "forward", _switch),
    (f"{_MODELS}.llama4.modeling_llama4", "Llama4TextMoe", "forward", _llama4),
)


@dataclass(frozen=True)
class _Sorted:
    """The order of tokens' slots by expert; number: of each row's expert."""

    order: Tensor
    place: Tensor
    bounds: tuple[Tensor, Tensor]
    slots: int
    number: Tensor

    @staticmethod
    def of(parts: int, expert: Tensor, experts: int) -> _Sorted:
        """By the experts of each token's slots, int64 [T, slots]."""
        tokens, slots = expert.shape
        # A step of several parts has a batch that they divide; its rows are tokens.
        own = expert.reshape(parts if tokens % parts == 0 else 1, -1)
        order, place, begins, ends = torch.ops.dmc.expert_order(own, experts)
        number = torch.ops.dmc.dispatch(own.unsqueeze(2), order, place, 1).squeeze(2)
        return _Sorted(order, place, (begins, ends), slots, number)

    def dispatch(self, x: Tensor) -> Tensor:
        """A row for each slot in order, of what tokens have [T, H] or slots [T · slots, H]."""
        own = x.reshape(self.order.shape[0], -1, x.shape[-1])
        return torch.ops.dmc.dispatch(own, self.order, self.place, self.order.shape[1] // own.shape[1])

    def combine(self, rows: Tensor, like: Tensor) -> Tensor:
        """The sums of the rows of each token, in the shape and type of its own."""
        made = torch.ops.dmc.combine(rows, self.order, self.place, self.slots)
        return made.reshape(like.shape).to(like.dtype)

    def linear(self, x: Tensor, matrices: Tensor, biases: Tensor | None, turned: bool) -> Tensor:
        """A linear layer for each expert; `turned` as in `grouped_product`."""
        made = torch.ops.dmc.grouped_product(x, matrices, *self.bounds, turned)
        return made if biases is None else made + biases[self.number]


def _experts(parts: int, module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """What `transformers` documents as the forward pass of a class of experts. The arguments have its names."""
    sorted_by = _Sorted.of(parts, top_k_index, module.num_experts)

    def layer(name: str, x: Tensor) -> Tensor:
        biases = getattr(module, f"{name}_bias") if module.has_bias else None
        return sorted_by.linear(x, getattr(module, name), biases, not module.is_transposed)

    inner = layer("gate_up_proj" if module.has_gate else "up_proj", sorted_by.dispatch(hidden_states))
    outer = layer("down_proj", module._apply_gate(inner) if module.has_gate else module.act_fn(inner))
    if module.has_post_expert_norm:
        outer = module.post_expert_norm(outer)
    score = sorted_by.dispatch(top_k_weights.reshape(-1, 1))
    return sorted_by.combine(outer * score, hidden_states)


def _called_once(experts: Sequence[nn.Module], sorted_by: _Sorted, x: Tensor) -> Tensor:
    """What experts of one structure make of their rows: one of them is called on all, with the layers of all."""
    with _Layers(experts, sorted_by):
        return experts[0](sorted_by.dispatch(x))


class _Layers(TorchFunctionMode):
    """Takes a linear layer of the first expert for those of all experts."""

    def __init__(self, experts: Sequence[nn.Module], sorted_by: _Sorted) -> None:
        super().__init__()
        names = dict(experts[0].named_parameters())
        self.every: dict[int, list[Tensor]] = {
            id(own): [each.get_parameter(name) for each in experts] for name, own in names.items()
        }
        self.sorted_by = sorted_by

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is functional.linear:
            return self.linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The layers of all experts, each on its rows."""
        matrices, biases = (None if own is None else torch.stack(self.every[id(own)]) for own in (weight, bias))
        assert matrices is not None
        return self.sorted_by.linear(x, matrices, biases, turned=True)
