"""One of the phases of a step, such as the critic's of a GAN: a program of its own over the state that all share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

from dmc.errors import InputError
from dmc.program.signature import counter_of
from dmc.runtime.checks import LearningRates, in_order
from dmc.runtime.tensors.tree import flatten_call
from dmc.runtime.variant import Batch

Found_co = TypeVar("Found_co", covariant=True)


class _Runs(Protocol):
    """A step, as its phases use it."""

    def run(self, kind: str, values_of: Batch, lr: LearningRates | None, check_finite: bool) -> Any:
        """A call of a phase."""
        ...

    def steps_of(self, counter: str) -> int:
        """What a counter says."""
        ...


class StepPhase:
    """Called like a step: with its own batch, learning rates and counter. It trains its own parameters alone."""

    def __init__(self, step: _Runs, name: str) -> None:
        """name: as given to `dmc.compile(phases=…)`."""
        self._step, self.name = step, name

    def __call__(
        self, *batch: Any, lr: LearningRates | None = None, check_finite: bool = False, **batch_kw: Any
    ) -> Any:
        """One step of the phase; see `Step.__call__`."""
        return self._step.run(self.name, lambda signature: flatten_call(signature, batch, batch_kw), lr, check_finite)

    def call_flat(self, batch: Mapping[str, Any], lr: LearningRates | None = None, check_finite: bool = False) -> Any:
        """Like a call, with batch tensors by their names; see `Step.call_flat`."""
        return self._step.run(self.name, lambda signature: in_order(batch, signature), lr, check_finite)

    @property
    def steps_done(self) -> int:
        """Steps of this phase since the state was new; waits for the steps in flight."""
        return self._step.steps_of(counter_of(self.name))


class Phases(Mapping[str, Found_co]):
    """Phases by name. Raises InputError for one that the step does not have."""

    def __init__(self, phases: Mapping[str, Found_co]) -> None:
        self._phases = phases

    def __getitem__(self, name: str) -> Found_co:
        if name not in self._phases:
            known = ", ".join(self._phases)
            hint = f"it has {known}" if known else "dmc.compile(model, phases={…}) compiles a step with phases"
            raise InputError(f"phase {name!r}", "is none of this step", hint)
        return self._phases[name]

    def __contains__(self, name: object) -> bool:
        return name in self._phases

    def __iter__(self) -> Iterator[str]:
        return iter(self._phases)

    def __len__(self) -> int:
        return len(self._phases)
