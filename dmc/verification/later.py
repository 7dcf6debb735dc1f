"""The steps behind the first, beside eager's: what a step keeps for the next one lies where that one looks for it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dmc.dtypes import Array
from dmc.errors import DmcError, EagerError, InputError, VerificationError
from dmc.observer import Observer
from dmc.runtime.comparison.difference import Difference, apart
from dmc.runtime.comparison.outcome import Expected, shown
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.state.dictionaries import build
from dmc.runtime.step import Step
from dmc.verification.batch import batch_of, reordered
from dmc.verification.expected import expected_of, slack_of
from dmc.verification.forms import Forms, Outcome
from dmc.verification.reference import Reference, eager_steps
from dmc.verification.request import Request
from dmc.verification.roundings import UNIT
from dmc.verification.subject import HINT, Subject

# A step may move the parameters by this share of their norm: a value from before it shows, and the model still computes
# as it does at its start.
_SHARE = 0.05


@dataclass(frozen=True)
class LaterSteps:
    """count: so many steps after the initial state, each on rows of the example in another order. is_plain: the first
    step agreed without what eager allows itself.
    """

    subject: Subject
    artifact: Artifact
    counter: int
    observer: Observer
    count: int
    is_plain: bool

    def check(self, step: Step, first: Reference) -> None:
        """Compares what a step computes one after the other with eager's, each step from the state that the one before
        has left. first: eager's first step, which agrees.

        So differences do not grow from step to step, and tolerances are those of one. Raises VerificationError where
        they differ; notes where such a batch is refused.
        """
        specs, rates = self.artifact.signature.state, self._rates(first)
        step.load_state_dict(build(specs, self.artifact.state))
        try:
            outcomes = [step.outcome(batch, rates) for batch in self._batches()]
            states = [{spec.name: outcome[spec.name] for spec in specs} for outcome in outcomes[:-1]]
            references = self.subject.eager(lambda request: self._eager(request, rates, states))
        except (EagerError, InputError) as error:
            self.observer.note(f"verified for one step only: on its rows in another order, {error.place}: {error.fact}")
            return
        disturbed: list[list[Reference]] = []
        for number, (outcome, reference) in enumerate(zip(outcomes, references, strict=True)):
            artifact = self._before(number, states)
            expected = expected_of(artifact, reference)
            if expected.differences(outcome):
                disturbed = disturbed or [*self._disturbed(rates, states)]
                own = [run[number] for run in disturbed]
                slack = slack_of(artifact, reference, own, self.subject.amount.longest)
                expected = replace(expected, slack=slack)
            if found := expected.differences(outcome):
                self._tell(number, artifact, expected, found, rates)
                return

    def _batches(self) -> list[dict[str, Array]]:
        return [batch_of(each, self.artifact.signature) for each in self._examples(self.subject.request)]

    def _examples(self, request: Request) -> list[object]:
        return [reordered(request.example, number + 1) for number in range(self.count)]

    def _eager(
        self, request: Request, rates: Sequence[float], states: Sequence[Mapping[str, Array]], noise: float = 0.0
    ) -> list[Reference]:
        return eager_steps(request, self.counter, self._examples(request), rates, states, noise)

    def _disturbed(self, rates: Sequence[float], states: Sequence[Mapping[str, Array]]) -> Iterator[list[Reference]]:
        """The steps with other roundings; of narrow types also in f32."""
        request = self.subject.request
        yield self._eager(request, rates, states, UNIT)
        if request.is_narrow():
            # The user's own code runs here, which may insist on its types; the first step has noted that.
            with contextlib.suppress(Exception):
                yield self._eager(request.widened(), rates, states, UNIT)

    def _before(self, number: int, states: Sequence[Mapping[str, Array]]) -> Artifact:
        """The artifact with the state before a step."""
        if not number:
            return self.artifact
        specs = self.artifact.signature.state
        return replace(self.artifact, state=tuple(states[number - 1][spec.name] for spec in specs))

    def _rates(self, first: Reference) -> list[float]:
        """Learning rates, by group: those of the first step, or such that the parameters do not move further."""
        size = moved = 0.0
        for spec, start in zip(self.artifact.signature.state, self.artifact.state, strict=True):
            value = first.values.get(spec.name)
            if spec.role == "parameter" and value is not None:
                size += apart(start, np.broadcast_to(np.zeros((), start.dtype), start.shape))[1] ** 2
                moved += apart(value, start)[1] ** 2
        # Where the first step leads to infinity, nothing is known.
        share = min(1.0, _SHARE * (size / moved) ** 0.5) if size and moved and math.isfinite(moved) else 1.0
        return [rate * share for rate in first.rates]

    def _tell(
        self, number: int, artifact: Artifact, expected: Expected, found: Sequence[Difference], rates: Sequence[float]
    ) -> None:
        """Raises VerificationError where state decides, or a form differs; else notes the difference.

        Of numbers alone, the first step was compared; eager itself computes some in another way at another place, such
        as floats out of an integer's range.
        """
        fact = (
            f"agrees with PyTorch eager in one step, but differs in step {number + 1} of {self.count} that follow, on "
            f"the example with its rows in another order\n  {shown(found)}\n  "
        )
        why = _why(artifact, expected, self._batches()[number], rates)
        if not why and self.is_plain and self._agrees_at_first(number, rates):
            why = "from this state, its forms agree, as far as they can be interpreted, and the compiled code does not"
        if why:
            raise VerificationError("the compiled step", fact + why, HINT)
        self.observer.note(f"the compiled step: {fact}a newly opened one does so, too: no state is in the wrong place")

    def _agrees_at_first(self, number: int, rates: Sequence[float]) -> bool:
        """Whether the batch of a step is computed as by eager from the initial state."""
        example = self._examples(self.subject.request)[number]
        (reference,) = self.subject.eager(lambda request: eager_steps(request, self.counter, [example], rates, [], 0.0))
        with contextlib.closing(Step(self.artifact, "cpu")) as fresh:
            outcome = fresh.outcome(self._batches()[number], list(rates))
        return not expected_of(self.artifact, reference).differences(outcome)


def _why(artifact: Artifact, expected: Expected, batch: Mapping[str, Array], rates: Sequence[float]) -> str:
    """The cause; "" where none of these is."""
    with contextlib.closing(Step(artifact, "cpu")) as fresh:
        if not expected.differences(fresh.outcome(batch, list(rates))):
            return "newly opened with the same state, it agrees: what it keeps is not where the next call looks for it"
    for name, outcome in _forms(artifact, batch, rates):
        if expected.differences(outcome):
            return f"from this state, it differs in form {name.partition('-')[2]}, and not before"
    return ""


def _forms(artifact: Artifact, batch: Mapping[str, Array], rates: Sequence[float]) -> Iterator[tuple[str, Outcome]]:
    forms = Forms(artifact, batch, tuple(rates))
    for name in forms.names():
        with contextlib.suppress(DmcError):
            yield name, forms.one(name)
