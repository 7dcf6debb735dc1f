"""Which stage changed the meaning: every stage of compilation is run on the batch until one differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from dmc.forms import IMPORTED, PLANNED
from dmc.importer.update import trace_update
from dmc.optim import OWN_COUNT
from dmc.program.signature import counter_of
from dmc.runtime.comparison.outcome import Expected
from dmc.verification import form_places
from dmc.verification.arrays import array_of, tensor_of
from dmc.verification.forms import Forms, Watched
from dmc.verification.graph_stages import Finding, GraphStages
from dmc.verification.reference import Reference, mean_gradients
from dmc.verification.request import Request


@dataclass(frozen=True)
class Stages:
    """Runs the stages of a step. seen: the traces of forms that were run, by name."""

    request: Request
    forms: Forms
    reference: Reference
    expected: Expected
    seen: dict[str, Watched] = field(default_factory=dict)

    def changed(self) -> str:
        """The first stage that differs from eager, in words."""
        skipped: list[str] = []
        for name, run in self._all():
            try:
                finding = run()
            # Whatever fails in the search for a fault, the fault itself must be reported.
            except Exception as error:
                skipped.append(f"{name} ({_first_line(error)})")
                continue
            if finding.differences:
                return _told(name, finding.place, skipped)
        return _told(
            "the compiled code", form_places.in_memory(self.forms, self.seen, self.expected.tolerance), skipped
        )

    def _all(self) -> Iterator[tuple[str, Callable[[], Finding]]]:
        graphs = GraphStages(self.request, self._counter, self.expected.tolerance)
        yield "the exported graph", graphs.exported
        yield "the patterns", graphs.patterns
        yield "the rules and composites", graphs.rules
        yield "the decomposed graph", graphs.decomposed
        yield "the optimizer's update", self._update
        for name in self.forms.names():
            yield f"form {name.partition('-')[2]}", self._form(name, graphs)

    def _apart(self, parameters: Iterable[str]) -> frozenset[str]:
        """Those that count their own steps."""
        return frozenset(name for name in parameters if f"{name}.{OWN_COUNT}" in self.expected.start)

    @property
    def _counter(self) -> int:
        return int(self.expected.start[counter_of(self.request.phase)])

    def _form(self, name: str, graphs: GraphStages) -> Callable[[], Finding]:
        def run() -> Finding:
            before = list(self.seen.values())[-1:]
            self.seen[name] = now = Watched.new()
            found = self.expected.differences(self.forms.run(name, now))
            if not found:
                return Finding([])
            if name.endswith(IMPORTED.name):
                place = form_places.of_graph(graphs.last, now, self.expected.tolerance)
            elif name.endswith(PLANNED.name):
                place = form_places.of_launches(self.forms.artifact, before, now, self.expected.tolerance)
            else:
                place = form_places.between(before, now, self.expected.tolerance)
            return Finding(found, place)

        return run

    def _update(self) -> Finding:
        """The update as imported, on eager's gradients."""
        reference, start = self.reference, self.expected.start
        # What other programs train, this one does not.
        specs = [spec for spec in self.expected.specs if spec.role == "parameter" and spec.mutated]
        parameters = {spec.name: tensor_of(start[spec.name]) for spec in specs}
        loss = tensor_of(reference.values["loss"])
        update = trace_update(replace(self.request.plan(), apart=self._apart(parameters)), parameters, {}, loss.dtype)
        raw = {name: tensor_of(each) for name, each in mean_gradients(self.request, self._counter).items()}
        gradients = [raw.get(name, torch.zeros_like(parameter)) for name, parameter in parameters.items()]
        slots = [tensor_of(start[slot]) for slot in update.slots]
        rates, guard = torch.tensor(reference.rates), torch.tensor(0, dtype=torch.int32)
        scalars = [torch.tensor(self._counter), loss, rates, guard]
        with torch.no_grad():
            results = update.graph(*parameters.values(), *gradients, *slots, *scalars)
        found = self.expected.differences(
            {name: array_of(value) for name, value in zip([*parameters, *update.slots], results, strict=False)}
        )
        return Finding(found, f"'{found[0].name}'" if found else "")


def _first_line(error: Exception) -> str:
    return (f"{type(error).__name__}: {error}".splitlines() or [""])[0]


def _told(stage: str, place: str, skipped: Sequence[str]) -> str:
    text = f"the meaning changed in {stage}" + (f", first at {place}" if place else "")
    return f"{text} (not run: {'; '.join(skipped)})" if skipped else text
