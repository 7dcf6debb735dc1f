"""The stages of compilation that are graphs of PyTorch, on the first micro-batch, each beside the one before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dmc.interpreter.dtypes import Array
from dmc.program.labels import GRADIENT
from dmc.runtime.difference import Difference, difference
from dmc.runtime.tolerance import Tolerance
from dmc.verification import graph_places
from dmc.verification.arrays import array_of
from dmc.verification.graphs import Graphs, Trace
from dmc.verification.reference import ModuleOutputs, eager_gradients
from dmc.verification.request import Request


@dataclass(frozen=True)
class Finding:
    """What a stage differs in, and where that begins; no differences where it computes what eager does."""

    differences: list[Difference]
    place: str = ""


@dataclass
class GraphStages:
    """counter: the steps done before this one. last: what the stage before has given. modules: what eager's give."""

    request: Request
    counter: int
    tolerance: Tolerance
    last: Trace | None = None
    modules: ModuleOutputs = field(default_factory=list)

    @cached_property
    def graphs(self) -> Graphs:
        """The request, imported again."""
        return Graphs.of(self.request, self.counter)

    @cached_property
    def eager(self) -> Mapping[str, Array]:
        """What eager gives."""
        return eager_gradients(self.request, self.counter, self.modules)

    def exported(self) -> Finding:
        """What torch.export makes of the model and its loss."""

        def place(before: Trace, now: Trace) -> str:
            return graph_places.of_export(self.modules, now, self.tolerance)

        return self._finding(self.graphs.of_export, place)

    def patterns(self) -> Finding:
        """The same with composites in place of patterns."""
        return self._finding(self.graphs.of_patterns, self._between)

    def rules(self) -> Finding:
        """The same with composites in place of operations, and their own backward passes."""
        return self._finding(self.graphs.of_rules, self._between)

    def decomposed(self) -> Finding:
        """The joint graph of forward and backward, decomposed as it is imported."""

        def place(before: Trace, now: Trace) -> str:
            return graph_places.of_decomposition(self.graphs, self.tolerance)

        return self._finding(self.graphs.of_decomposed, place)

    def _between(self, before: Trace, now: Trace) -> str:
        return graph_places.between(before, now, self.tolerance)

    def _finding(self, run: Callable[[Trace], Mapping[str, Array]], place: Callable[[Trace, Trace], str]) -> Finding:
        before, now = self.last or Trace.empty(), Trace.empty()
        values = run(now)
        self.last = now
        found = self._differences(values)
        return Finding(found, place(before, now) if found else "")

    def _differences(self, values: Mapping[str, Array]) -> list[Difference]:
        """Of what eager has. A gradient that a graph does not give is zero, and a buffer as it was."""
        state = self.graphs.captured.state
        found: list[Difference | None] = []
        for name, expected in self.eager.items():
            if name in values:
                found.append(difference(name, values[name], expected, self.tolerance))
            elif name.startswith(GRADIENT):
                found.append(difference(name, np.zeros_like(expected), expected, self.tolerance))
            elif name in state:
                found.append(difference(name, array_of(state[name]), expected, self.tolerance))
        return [each for each in found if each is not None]
