"""An implementation of composites, as data: what it supports, its candidates, its cost, its reference and its
recipes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dmc.errors import DmcError
from dmc.kernels.problem import Cost, Problem
from dmc.kernels.recipe import Recipe

FAMILIES = ("attention", "cross_entropy", "embedding", "experts")


@dataclass(frozen=True)
class Candidate:
    """Tuning parameters of an implementation: tiles and the like by name, warps per block, pipeline stages."""

    tiles: tuple[tuple[str, int], ...] = ()
    warps: int = 4
    stages: int = 2

    def __getitem__(self, name: str) -> int:
        return dict(self.tiles)[name]

    def get(self, name: str, default: int) -> int:
        """A parameter that not every candidate has."""
        return dict(self.tiles).get(name, default)

    def __str__(self) -> str:
        return " ".join(
            [*(f"{name}={value}" for name, value in self.tiles), f"warps={self.warps} stages={self.stages}"]
        )


def candidate(warps: int = 4, stages: int = 2, **tiles: int) -> Candidate:
    """A candidate with its tiles in the given order."""
    return Candidate(tuple(tiles.items()), warps, stages)


@dataclass(frozen=True)
class Implementation:
    """How problems of one kind may be computed.

    refuses: why it does not support a problem, or None. candidates: the most promising first, the default without
    measurements. reference: the results in float64, from operands as PyTorch tensors. sample: such operands, from
    `Draws`. cost: a lower bound.
    """

    name: str
    kind: str
    refuses: Callable[[Problem], str | None]
    candidates: Callable[[Problem], tuple[Candidate, ...]]
    reference: Callable[[Problem, tuple[Any, ...]], tuple[Any, ...]]
    sample: Callable[[Problem, Any], tuple[Any, ...]]
    cost: Callable[[Problem], Cost]
    recipe: Callable[[Problem, Candidate], Recipe]


REGISTRY: dict[str, Implementation] = {}


def register(implementation: Implementation) -> Implementation:
    """Adds an implementation. Raises ValueError if its name is taken."""
    if implementation.name in REGISTRY:
        raise ValueError(f"implementation name taken: {implementation.name}")
    REGISTRY[implementation.name] = implementation
    return implementation


def implementations() -> tuple[Implementation, ...]:
    """Every implementation of every family, by name."""
    for family in FAMILIES:
        importlib.import_module(f"dmc.kernels.{family}")
    return tuple(REGISTRY[name] for name in sorted(REGISTRY))


def implementation_of(problem: Problem) -> Implementation:
    """The implementation that supports `problem`. Raises DmcError saying why none does."""
    reasons: list[str] = []
    for each in (each for each in implementations() if each.kind == problem.kind):
        reason = each.refuses(problem)
        if reason is None:
            return each
        reasons.append(f"{each.name}: {reason}")
    fact = f"has no kernel ({'; '.join(reasons) or 'no implementation of this kind'})"
    raise DmcError(str(problem), fact, hint="inline the composite")
