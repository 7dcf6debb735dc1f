"""A table of mistakes: programs that users write, and what the error must say of each.

A mistake is a function without arguments that raises. The line at fault ends in `# here`; where there is none, the
mistake names the place that the error names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import dmc

FEATURES = 6
ROWS = 8
_MARK = "# here"


@dataclass(frozen=True)
class Mistake:
    """fact, way: what the error says, and what its hint suggests, by regular expressions. place: part of the place."""

    run: Callable[[], object]
    fact: str
    way: str
    place: str


MISTAKES: dict[str, Mistake] = {}


def mistake(fact: str, way: str, place: str = "") -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Enters the decorated program into the table."""

    def enter(run: Callable[[], object]) -> Callable[[], object]:
        lines, first = inspect.getsourcelines(run)
        marked = [first + index for index, line in enumerate(lines) if line.rstrip().endswith(_MARK)]
        assert len(marked) + bool(place) == 1, f"{run.__name__}: mark one line, or name the place"
        name = run.__name__.replace("_", "-")
        assert name not in MISTAKES, name
        MISTAKES[name] = Mistake(run, fact, way, place or f"{inspect.getsourcefile(run)}:{marked[0]}")
        return run

    return enter


class Layer(nn.Module):
    """A linear layer, and behind it a function of its result and of this module."""

    def __init__(self, then: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES)
        self.then = then

    def forward(self, x: torch.Tensor) -> Any:
        """f32[ROWS, FEATURES] → whatever the function returns."""
        return self.then(self, self.linear(x))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of one shape."""
    return torch.randn(ROWS, FEATURES), torch.randn(ROWS, FEATURES)


def compiled(model: Any, **changes: Any) -> Any:
    """Compiles a step of `model`, with some arguments changed."""
    options: dict[str, Any] = {
        "loss": nn.functional.mse_loss,
        "optimizer": dmc.optim.SGD(lr=0.1),
        "example": batch(),
        "verify": False,
        "progress": False,
    }
    return dmc.compile_artifact(model, **{**options, **changes})


def forward(then: Callable[[Any, torch.Tensor], Any], **changes: Any) -> Any:
    """Compiles a step of a layer with `then` behind it."""
    return compiled(Layer(then), **changes)
