"""Whether a compiled step computes what PyTorch eager computes, and if not, which stage changed its meaning."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dmc.errors import VerificationError
from dmc.observer import Observer
from dmc.runtime.comparison.difference import Difference
from dmc.runtime.comparison.outcome import Expected, shown
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.step import Step
from dmc.verification.batch import batch_of
from dmc.verification.expected import expected_of, slack_of
from dmc.verification.forms import Forms, Outcome
from dmc.verification.later import LaterSteps
from dmc.verification.reference import Reference, eager_step
from dmc.verification.request import Request
from dmc.verification.roundings import UNIT
from dmc.verification.stages import Stages
from dmc.verification.subject import HINT, Subject, first_line


@dataclass(frozen=True)
class Comparison:
    """Steps beside eager's. artifact: with its state. runs_here: whether they are executed, not interpreted.

    later: so many steps are compared behind the first, where they are executed.
    """

    subject: Subject
    artifact: Artifact
    counter: int
    runs_here: bool
    observer: Observer
    later: int = 0

    def run(self) -> None:
        """Raises VerificationError where they differ, EagerError where eager fails."""
        reference = self.subject.eager(lambda request: eager_step(request, self.counter))
        if not self.runs_here:
            batch = batch_of(self._request.example, self.artifact.signature)
            self._check(reference, Forms(self.artifact, batch, reference.rates).last())
            return
        with contextlib.closing(Step(self.artifact, "cpu")) as step:
            batch = batch_of(self._request.example, self.artifact.signature)
            is_plain = self._check(reference, step.outcome(batch, list(reference.rates)))
            if self.later:
                given = self.subject, self.artifact, self.counter, self.observer, self.later
                LaterSteps(*given, is_plain).check(step, reference)

    def _check(self, reference: Reference, outcome: Outcome) -> bool:
        """The first step. Returns whether the table of tolerances settles it."""
        expected = expected_of(self.artifact, reference)
        if not expected.differences(outcome):
            return True
        expected = self._patient(expected, reference)
        if found := expected.differences(outcome):
            raise self._wrong(reference, expected, found)
        return False

    def _patient(self, expected: Expected, reference: Reference) -> Expected:
        """Allows what eager itself differs by when it rounds differently (its parameters; in other ways and less often
        where types are narrower than f32) and the effect of another order of long sums.

        It takes another eager step or two, so it is only for tensors that the table does not settle.
        """
        slack = slack_of(self.artifact, reference, list(self._disturbed()), self.subject.amount.longest)
        return replace(expected, slack=slack)

    def _disturbed(self) -> Iterator[Reference]:
        yield eager_step(self._request, self.counter, UNIT)
        if self._request.is_narrow():
            # Some of eager's sums are taken in narrow types and far from right.
            try:
                yield eager_step(self._request.widened(), self.counter, UNIT)
            # The user's own code runs here, which may insist on its types.
            except Exception as error:
                self.observer.note(f"a step of PyTorch eager in f32 fails: {first_line(error)}")

    def _wrong(self, reference: Reference, expected: Expected, found: Sequence[Difference]) -> VerificationError:
        forms = Forms(self.artifact, batch_of(self._request.example, self.artifact.signature), reference.rates)
        stage = Stages(self._request, forms, reference, expected).changed()
        fact = f"differs from PyTorch eager on the example\n  {shown(found)}\n  {stage}"
        return VerificationError("the compiled step", fact, HINT)

    @property
    def _request(self) -> Request:
        return self.subject.request
