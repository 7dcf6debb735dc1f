"""A kernel with code of ours, as data."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.kernels.problem import Problem
from dmc.kernels.recipe import Recipe
from dmc.program.code import Place, Step
from dmc.program.contract import Phase, phases_of


@dataclass(frozen=True)
class Taken:
    """How an implementation computes a body. reads, writes: where operands and results of the problem lie.

    label: what tells it from other ways to do so.
    """

    problem: Problem
    recipe: Recipe
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    label: str


@dataclass(frozen=True)
class NativeKernel:
    """A kernel as steps of a GPU, whose code is ready.

    implementation: "triton", or the library that computes it. scratch: bytes that it needs beside operands and results.
    taken: what Triton's code was made of. reason: why it is computed in this way.
    """

    name: str
    implementation: str
    steps: tuple[Step, ...]
    scratch: int
    taken: Taken | None = None
    reason: str = ""

    def phases(self) -> tuple[Phase, ...]:
        """What its steps do with the memory it is given."""
        return phases_of(self.steps)
