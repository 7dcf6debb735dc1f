"""The table of rules: which ATen operations of the forward pass mean something else in a step.

A rule takes the source of random draws and the operation's arguments. It returns `DECLINE` where what it would write
does not mean what the operation does; PyTorch then decomposes the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

DECLINE: Final = object()

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}
# Of operations that other libraries define, by name.
_NAMED: dict[str, Rule] = {}


def rule_of(target: Any) -> Rule | None:
    """The rule of an operation, if any."""
    return RULES.get(target) or _NAMED.get(str(target))


def rule_by_name(name: str) -> Callable[[Rule], Rule]:
    """Registers a rule for an operation that may not exist, such as "library.operation.default"."""

    def register(function: Rule) -> Rule:
        _NAMED[name] = function
        return function

    return register


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    """Registers a rule for each of `targets`."""

    def register(function: Rule) -> Rule:
        for target in targets:
            RULES[target] = function
        return function

    return register
