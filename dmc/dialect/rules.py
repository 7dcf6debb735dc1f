"""Rules that ODS cannot express, by the class they apply to.

A rule is a function that takes an op (or attribute) and raises `Violation`. `rule` runs before the regions of an op
are verified, `region_rule` after, so that the latter may trust the ops inside. `symbol_rule` needs other ops found by
name and runs only for a whole module (`dmc.dialect.symbols.verify_symbols`); it takes the op and its `Symbols`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., None])
Rule = Callable[[Any], None]
SymbolRule = Callable[[Any, Any], None]

RULES: dict[type, tuple[Rule, ...]] = {}
REGION_RULES: dict[type, tuple[Rule, ...]] = {}
SYMBOL_RULES: dict[type, tuple[SymbolRule, ...]] = {}


class Violation(Exception):
    """A violated rule. The text states the fact and where possible a way out; the verifier adds op and place."""


def rule(*classes: type) -> Callable[[Function], Function]:
    """Registers the decorated function as a rule of these op or attribute classes."""
    return _registering(RULES, classes)


def region_rule(*classes: type) -> Callable[[Function], Function]:
    """Registers the decorated function as a rule of these op classes that is checked after the ops in their regions."""
    return _registering(REGION_RULES, classes)


def symbol_rule(*classes: type) -> Callable[[Function], Function]:
    """Registers the decorated function as a rule of these op classes that is checked for a whole module."""
    return _registering(SYMBOL_RULES, classes)


def _registering(table: dict[type, tuple[Any, ...]], classes: tuple[type, ...]) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for cls in classes:
            table[cls] = (*table.get(cls, ()), function)
        return function

    return register
