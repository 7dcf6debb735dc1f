"""Parameters and buffers of model and loss, and what a call of `forward` may do with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dmc.errors import ImportFailure
from dmc.importer.torch_internals import buffers_of, parameters_of, storage_key

ONCE = "for state created on the first call, call the model on such a batch before compiling"


_Module = tuple[str, nn.Module, Mapping[str, Tensor | None], Mapping[str, Tensor | None]]


@dataclass(frozen=True)
class Registered:
    """Parameters and buffers at the start of a call: by name, and by module, each once."""

    by_name: Mapping[str, Tensor]
    by_module: tuple[_Module, ...]

    @staticmethod
    def of(model: nn.Module, loss: nn.Module | None) -> Registered:
        by_name: dict[str, Tensor] = {}
        # While export traces, a module is another object under each of its paths, with the same registries.
        copies: dict[int, _Module] = {}
        for path, module in modules_of(model, loss):
            parameters, buffers = parameters_of(module), buffers_of(module)
            copies.setdefault(id(buffers), (path, module, dict(parameters), dict(buffers)))
            own = {**parameters, **buffers}
            named = {f"{path}.{name}" if path else name: value for name, value in own.items() if value is not None}
            if both := by_name.keys() & named.keys():
                raise ImportFailure(
                    min(both), "names both a tensor of the model and one of the loss", hint="rename one"
                )
            by_name |= named
        return Registered(by_name, tuple(copies.values()))

    def replaced(self) -> dict[str, Tensor]:
        """The new values of reassigned buffers; raises ImportFailure where a compiled step cannot carry them on."""
        found: dict[str, Tensor] = {}
        places = Counter(id(buffer) for *_, buffers in self.by_module for buffer in buffers.values())
        for path, module, parameters, buffers in self.by_module:
            place = f"module '{path}'" if path else "the model"
            _check_same(place, "parameter", parameters, parameters_of(module))
            for name, old, new in _differing(buffers, buffers_of(module)):
                if old is None or new is None:
                    raise _made_or_removed(place, "buffer", name)
                _check_replaced(place, name, old, new)
                full = f"{path}.{name}" if path else name
                if places[id(old)] > 1:
                    raise _tied(full)
                found[full] = new
        now = {id(tensor): storage_key(tensor) for tensor in self._now()}
        for name, new in found.items():
            if list(now.values()).count(storage_key(new)) > 1:
                fact = f"the buffer '{name}' is assigned an alias of another parameter or buffer"
                raise ImportFailure("the model", fact, hint="assign a copy: .clone()")
        return found

    def _now(self) -> Iterator[Tensor]:
        for _, module, *_ in self.by_module:
            registries = parameters_of(module), buffers_of(module)
            yield from (tensor for registry in registries for tensor in registry.values() if tensor is not None)


def modules_of(model: nn.Module, loss: nn.Module | None) -> Iterator[tuple[str, nn.Module]]:
    """Every module of the model, by each path in it, and those of the loss, from `loss` on."""
    yield from model.named_modules(remove_duplicate=False)
    if loss is not None:
        yield from loss.named_modules(prefix="loss", remove_duplicate=False)


def _differing(
    before: Mapping[str, Tensor | None], now: Mapping[str, Tensor | None]
) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
    for name in dict.fromkeys((*before, *now)):
        if before.get(name) is not now.get(name):
            yield name, before.get(name), now.get(name)


def _tied(name: str) -> ImportFailure:
    fact = "is one buffer under several names, but only this name is assigned another tensor"
    return ImportFailure(name, fact, hint="write into it: buffer.copy_(…)")


def _check_same(place: str, kind: str, before: Mapping[str, Tensor | None], now: Mapping[str, Tensor | None]) -> None:
    for name, old, new in _differing(before, now):
        if old is None or new is None:
            raise _made_or_removed(place, kind, name)
        raise ImportFailure(
            place,
            f"replaces the parameter '{name}' in `forward`, unseen by the optimizer",
            hint="write into it: p.copy_(…) under torch.no_grad(), or make it a buffer",
        )


def _made_or_removed(place: str, kind: str, name: str) -> ImportFailure:
    return ImportFailure(
        place,
        f"the {kind} '{name}' is created or removed in `forward`",
        hint=f"register it in __init__; {ONCE}",
    )


def check_shapes(before: Mapping[str, torch.Size], now: Mapping[str, Tensor]) -> None:
    """Of operations in place, such as `transpose_`, which change more than the numbers of a tensor."""
    for name, tensor in now.items():
        if tensor.shape != before[name]:
            raise ImportFailure(
                "the model",
                f"'{name}' becomes {describe(tensor)} but was of shape {list(before[name])}",
                hint=f"keep its shape; {ONCE}",
            )


def _check_replaced(place: str, name: str, old: Tensor, new: Tensor) -> None:
    if old.shape != new.shape or old.dtype != new.dtype:
        raise ImportFailure(
            place,
            f"the buffer '{name}' becomes {describe(new)} but was {describe(old)}",
            hint=f"keep its shape and type; {ONCE}",
        )
    if new.requires_grad:
        raise carries_gradient(place, name)


def carries_gradient(place: str, name: str) -> ImportFailure:
    """The error for a buffer through which the gradient of a later step would flow into this one."""
    return ImportFailure(
        place, f"the buffer '{name}' is assigned a value that has a gradient", hint="assign its .detach()"
    )


def describe(value: Any) -> str:
    """A description of `value`, for an error."""
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype} with shape {list(value.shape)}"
    return f"a {type(value).__name__}"
