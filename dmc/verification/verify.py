"""Verification in `dmc.compile`: decides whether to verify, compares, and reports."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dmc.errors import ArtifactError, VerificationError
from dmc.importer import origin
from dmc.observer import Observer
from dmc.runtime.artifact import EVALUATION, Artifact
from dmc.runtime.cpu import check_cpu, is_checked
from dmc.runtime.difference import Difference
from dmc.runtime.outcome import Expected, shown
from dmc.runtime.step import Step
from dmc.verification.batch import batch_of
from dmc.verification.estimate import Amount, Rates
from dmc.verification.evaluation import check_evaluation
from dmc.verification.expected import expected_of, slack_of
from dmc.verification.forms import Forms, Outcome
from dmc.verification.reference import Reference, eager_step
from dmc.verification.request import Request
from dmc.verification.stages import Stages

# Eager may take this share of compile time; beyond it a comparison must be requested.
SHARE = 0.1
# The time to copy an element of state for eager, and to put it into, read it from and compare it with the compiled
# step, relative to that of an eager operation on it.
COMPARED = 8.0
# The time of the interpreter relative to eager's.
INTERPRETER = 50
# One unit in the last place of an f32 number.
UNIT = 2.0**-23
_HINT = "please report it; verify=False compiles without the comparison"


@dataclass(frozen=True)
class Verification:
    """One comparison. asked: True for at any cost, None for where it is cheap, False for never.

    amount: the work of the step. seconds: the compile time. is_named: whether the target names a processor, which need
    not be this machine's. beside: what the further programs of the artifact are, by name.
    """

    request: Request
    artifact: Artifact
    asked: bool | None
    amount: Amount
    seconds: float
    observer: Observer
    is_named: bool = False
    beside: Mapping[str, Request] = field(default_factory=dict)

    def run(self) -> None:
        """Compares the first step of the artifact with eager's, as a stage; notes it where it does not.

        Raises VerificationError where they differ and, if requested, where eager itself fails.
        """
        if self.asked is False:
            return
        with self.observer.stage("verify"):
            self._compare()

    def _compare(self) -> None:
        if not self.asked and (reason := self._too_long()):
            self.observer.note(f"not verified: {reason}")
            return
        try:
            reference = eager_step(self.request, self._counter())
        # The user's own code runs here: it may raise anything.
        except Exception as error:
            if _is_ours(error):
                raise
            self._eager_failed(error)
            return
        expected = expected_of(self.artifact, reference)
        outcome = self._outcome(reference)
        found = expected.differences(outcome)
        if found:
            expected = self._patient(expected, reference)
            found = expected.differences(outcome)
        if found:
            raise self._wrong(reference, expected, found)
        for name, request in self.beside.items():
            self._compare_program(name, request)

    def _compare_program(self, name: str, request: Request) -> None:
        """Compares a further program, from the same state."""
        if name.startswith(EVALUATION):
            check_evaluation(request, self.artifact, name, self._counter(), self._runs_here(), self.amount.longest)
            return
        alone = replace(self.artifact.programs[name], state=self.artifact.state)
        replace(self, request=request, artifact=alone, asked=True, beside={})._compare()

    def _too_long(self) -> str:
        rates, runs_here = Rates.measured(), self._runs_here()
        eager = self.amount.seconds(rates)
        longer = eager if runs_here else eager * INTERPRETER
        if longer <= SHARE * self.seconds:
            return ""
        what = "a step of eager" if runs_here else "interpreting a step that cannot run here"
        whole = eager + longer + rates.element * COMPARED * sum(array.size for array in self.artifact.state)
        return (
            f"{what} takes about {longer:.1f} s, more than a tenth of the {self.seconds:.1f} s of compilation; "
            f"verify=True compares the step with PyTorch eager anyway, in about {whole:.1f} s"
        )

    def _runs_here(self) -> bool:
        if "cpu" not in self.artifact.target.split("+"):
            return False
        if self.is_named and not is_checked(self.artifact.requires):
            return False
        try:
            check_cpu(self.artifact.requires, "the step")
        except ArtifactError:
            return False
        return True

    def _counter(self) -> int:
        specs = self.artifact.signature.state
        return next(
            int(array) for spec, array in zip(specs, self.artifact.state, strict=True) if spec.role == "counter"
        )

    def _patient(self, expected: Expected, reference: Reference) -> Expected:
        """Allows what eager itself differs by when it rounds differently (its parameters, and less often where types
        are narrower than f32) and the effect of another order of long sums.

        It takes another eager step, so it is only for tensors that the table does not settle.
        """
        disturbed = self._disturbed()
        slack = slack_of(self.artifact, reference, disturbed, self.amount.longest)
        return replace(expected, slack=slack)

    def _disturbed(self) -> Reference:
        if self.request.is_narrow():
            # Some of eager's sums are taken in narrow types and far from right.
            try:
                return eager_step(self.request.widened(), self._counter(), UNIT)
            # The user's own code runs here, which may insist on its types.
            except Exception as error:
                self.observer.note(f"a step of PyTorch eager in f32 fails: {_first_line(error)}")
        return eager_step(self.request, self._counter(), UNIT)

    def _outcome(self, reference: Reference) -> Outcome:
        batch = batch_of(self.request.example, self.artifact.signature)
        if not self._runs_here():
            return Forms(self.artifact, batch, reference.rates).last()
        step = Step(self.artifact, "cpu")
        try:
            return step.outcome(batch, list(reference.rates))
        finally:
            step.close()

    def _eager_failed(self, error: Exception) -> None:
        fact = f"a step of PyTorch eager on the example raises {type(error).__name__}: {_first_line(error)}"
        place = str(origin.of_exception(error, self.request.model))
        if self.asked:
            hint = "fix the model or the example; verify=False compiles without the comparison"
            raise VerificationError(place, fact, hint) from error
        self.observer.note(f"not verified: {place}: {fact}")

    def _wrong(self, reference: Reference, expected: Expected, found: Sequence[Difference]) -> VerificationError:
        forms = Forms(self.artifact, batch_of(self.request.example, self.artifact.signature), reference.rates)
        stage = Stages(self.request, forms, reference, expected).changed()
        fact = f"differs from PyTorch eager on the example\n  {shown(found)}\n  {stage}"
        return VerificationError("the compiled step", fact, _HINT)


def _is_ours(error: Exception) -> bool:
    """Whether verification itself raised it, not the code it runs."""
    last = list(traceback.walk_tb(error.__traceback__))[-1][0]
    return str(last.f_globals.get("__name__", "")).startswith(__package__ or "dmc.verification")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
