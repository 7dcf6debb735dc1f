"""The stages of compilation that are PyTorch graphs, run on the first micro-batch, each compared with the one before
it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dmc.dtypes import Array
from dmc.program.labels import GRADIENT
from dmc.runtime.comparison.difference import Difference, difference
from dmc.runtime.comparison.tolerance import Tolerance
from dmc.verification import graph_places
from dmc.verification.arrays import array_of
from dmc.verification.graphs import Graphs, Trace
from dmc.verification.reference import ModuleOutputs, eager_gradients
from dmc.verification.request import Request


@dataclass(frozen=True)
class Finding:
    """The differences of a stage, and where they begin; none where it agrees with eager."""

    differences: list[Difference]
    place: str = ""


@dataclass
class GraphStages:
    """counter: the steps done before this one. last: the results of the previous stage. modules: the results of eager's
    modules."""

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
        """Eager's results."""
        return eager_gradients(self.request, self.counter, self.modules)

    def exported(self) -> Finding:
        """The graph that torch.export returns for the model and its loss."""

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
        """The joint graph of forward and backward, decomposed as for import."""

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
        """The differences of eager's values. A gradient missing in a graph is zero, and a missing buffer is
        unchanged."""
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
