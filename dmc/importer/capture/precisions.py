"""Modules that compute in other types than the step, by the verb `precision` of a plan.

It is a change of the model, so that PyTorch eager computes the same: `forward` of such a module converts what it is
given and what it returns, and is run under `torch.autocast`, or without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from dmc.errors import PlanError
from dmc.plans.patterns import find
from dmc.plans.rules import Rule
from dmc.plans.verb_checks import outermost
from dmc.plans.verbs import Precision

# By precision, the type to which inputs and parameters are converted; None leaves them to `torch.autocast`.
_TYPES: Mapping[str, torch.dtype | None] = {"fp32": torch.float32, "bf16": torch.bfloat16, "bf16-mixed": None}
_FLOATING = (torch.float32, torch.bfloat16, torch.float16)


@contextmanager
def precisions(model: nn.Module, rules: Iterable[Rule], dtype: torch.dtype | None) -> Generator[None]:
    """Inside, the modules that verbs mean compute as these say. dtype: that of the step's state; None: f32.

    Raises PlanError for a pattern that matches no module, for floating-point buffers in another type than the module
    computes in, and on leaving for modules whose `forward` was not called inside.
    """
    found = _modules(model, rules)
    called: set[str] = set()
    # A trace restores all Python objects that it reaches from the model; it does not look into a built-in method.
    given = found, dtype or torch.float32, called.add
    wrapped = [_Wrapped(path, module, *given) for path, module in _called(model, found)]
    for each in wrapped:
        each.check_buffers(dtype)
    for each in wrapped:
        vars(each.module)["forward"] = each.forward()
    try:
        yield
    finally:
        for each in wrapped:
            each.restore()
    for each in wrapped:
        if each.path not in called:
            raise each.without_effect()


def has_narrow(rules: Iterable[Rule]) -> bool:
    """Whether verbs let modules compute in narrow types."""
    return any(isinstance(rule, Precision) and rule.dtype != "fp32" for rule in rules)


def _modules(model: nn.Module, rules: Iterable[Rule]) -> dict[str, Precision]:
    """The outermost modules that each verb means, by path."""
    paths = {path: None for path, _ in model.named_modules() if path}
    said = [rule for rule in rules if isinstance(rule, Precision)]
    return {path: rule for rule in said for path in outermost(find(rule, rule.pattern, paths, "module"))}


def _called(model: nn.Module, found: Iterable[str]) -> Iterator[tuple[str, nn.Module]]:
    """The modules, or where one only lists others, as a ModuleList, those."""
    pending = [(path, model.get_submodule(path)) for path in found]
    while pending:
        path, module = pending.pop(0)
        if isinstance(module, nn.ModuleList | nn.ModuleDict) and type(module).forward is nn.Module.forward:
            pending += [(f"{path}.{name}", child) for name, child in module.named_children()]
        else:
            yield path, module


@dataclass
class _Wrapped:
    """A module with another `forward`. note: told the path where that runs. before: its own, where it is not that of
    its class."""

    path: str
    module: nn.Module
    found: Mapping[str, Precision]
    outer: torch.dtype
    note: Callable[[str], None]
    before: list[Callable[..., Any]] = field(default_factory=list[Callable[..., Any]])

    def __post_init__(self) -> None:
        self.rule = next(self.found[path] for path in _upwards(self.path) if path in self.found)
        self.dtype = _TYPES[self.rule.dtype]
        self.before += [vars(self.module)["forward"]] if "forward" in vars(self.module) else []

    def restore(self) -> None:
        """Gives the module back what it had."""
        vars(self.module).pop("forward", None)
        if self.before:
            vars(self.module)["forward"] = self.before[0]

    def check_buffers(self, step: torch.dtype | None) -> None:
        """Raises PlanError for a floating-point buffer in another type than the module computes in. step: the type of
        all state, or None."""
        if self.dtype is None:
            return
        for path, module in self._own():
            for name, buffer in module.named_buffers(recurse=False):
                kind = step or buffer.dtype
                if buffer.dtype in _FLOATING and kind != self.dtype:
                    fact = f"cannot be: buffer '{path}.{name}' keeps its type {_short(kind)}"
                    hint = f"use \"bf16-mixed\", here or in a rule for '{path}' alone, or narrow the path"
                    raise PlanError(str(self.rule), fact, hint)

    def without_effect(self) -> PlanError:
        """The error where the module's `forward` was not called, so that it computed in no other type."""
        fact = f"has no effect on '{self.path}': its forward is not called"
        around = self.path.rpartition(".")[0]
        caller = f"name the module that uses it, such as '{around}'" if around else "call it in the model's forward"
        return PlanError(str(self.rule), fact, f"{caller}, or narrow the path")

    def forward(self) -> Callable[..., Any]:
        """What takes the place of the module's `forward`."""
        own = self.module.forward

        # PyTorch keeps the frames of this name.
        @functools.wraps(own)
        def forward(*args: Any, **kwargs: Any) -> Any:
            self.note(self.path)
            args, kwargs = pytree.tree_map_only(Tensor, lambda each: _converted(each, self.dtype), (args, kwargs))
            with self._types(), self._parameters():
                made = own(*args, **kwargs)
            return pytree.tree_map_only(Tensor, lambda each: _converted(each, self.outer), made)

        return forward

    def _types(self) -> torch.autocast:
        if self.dtype is None:
            return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)
        return torch.autocast("cpu", enabled=False)

    @contextmanager
    def _parameters(self) -> Generator[None]:
        """Inside, the parameters of the module are converted, but for those of modules inside with a word of their
        own."""
        kept: list[tuple[dict[str, Any], str, Any]] = []
        for _, module in self._own() if self.dtype is not None else ():
            table: dict[str, Any] = vars(module)["_parameters"]
            for name, parameter in list(table.items()):
                if parameter is not None and parameter.dtype in _FLOATING and parameter.dtype != self.dtype:
                    kept.append((table, name, parameter))
                    table[name] = parameter.to(self.dtype)
        try:
            yield
        finally:
            for table, name, parameter in kept:
                table[name] = parameter

    def _own(self) -> Iterator[tuple[str, nn.Module]]:
        for path, module in self.module.named_modules(prefix=self.path):
            inner = next((each for each in _upwards(path) if each in self.found), "")
            if len(inner) <= len(self.path):
                yield path, module


def _upwards(path: str) -> Iterator[str]:
    """A path and those of the modules around it, the innermost first."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _converted(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.dtype in _FLOATING else tensor
