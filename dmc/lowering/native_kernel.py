"""A kernel with dmc's own code, as data."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.kernels.problem import Problem
from dmc.kernels.recipe import Recipe
from dmc.program.code import Attention, Place, Step
from dmc.program.contract import Phase, phases_of


@dataclass(frozen=True)
class Taken:
    """How an implementation computes a body. reads, writes: the places of the problem's operands and results.

    label: its name among the candidates. library: the library's step that computes it instead of the recipe, where all
    buffers are aligned.
    """

    problem: Problem
    recipe: Recipe
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    label: str
    library: Attention | None = None


@dataclass(frozen=True)
class NativeKernel:
    """A kernel as GPU steps with compiled code.

    implementation: "triton", or the library that computes it. scratch: bytes that it needs besides operands and
    results. taken: the source of Triton's code. reason: why this candidate was chosen.
    """

    name: str
    implementation: str
    steps: tuple[Step, ...]
    scratch: int
    taken: Taken | None = None
    reason: str = ""

    def phases(self) -> tuple[Phase, ...]:
        """The memory accesses of its steps."""
        return phases_of(self.steps)
