"""Whether a compiled evaluation computes what PyTorch eager computes in eval mode."""

from __future__ import annotations

from dataclasses import replace

from dmc.errors import VerificationError
from dmc.runtime.comparison.outcome import Expected, shown
from dmc.runtime.comparison.tolerance import TOLERANCE
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.step import Step
from dmc.verification.batch import batch_of
from dmc.verification.expected import slack_of
from dmc.verification.forms import Forms, Outcome
from dmc.verification.reference import eager_evaluation
from dmc.verification.request import Request
from dmc.verification.roundings import UNIT
from dmc.verification.subject import HINT, Subject


def check_evaluation(subject: Subject, artifact: Artifact, name: str, counter: int, runs_here: bool) -> None:
    """Compares the evaluation of the example with eager's. Raises VerificationError where they differ, EagerError where
    eager fails.

    subject: with the loss of the evaluation. name: of the program. counter: steps done.
    """
    request = subject.request
    reference = subject.eager(lambda own: eager_evaluation(own, counter))
    expected = Expected(reference.values, (), {}, 0.0, TOLERANCE[artifact.precision])
    outcome = _outcome(request, artifact, name, runs_here)
    if not expected.differences(outcome):
        return
    # What eager differs by where it rounds differently, and the effect of another order of long sums.
    slack = slack_of(artifact, reference, [eager_evaluation(request, counter, UNIT)], subject.amount.longest)
    if found := replace(expected, slack=slack).differences(outcome):
        fact = f"differs from PyTorch eager in eval mode on the example\n  {shown(found)}"
        raise VerificationError("the compiled evaluation", fact, HINT)


def _outcome(request: Request, artifact: Artifact, name: str, runs_here: bool) -> Outcome:
    program = artifact.programs[name]
    batch = batch_of(request.example, program.signature)
    if not runs_here:
        return Forms(replace(program, state=artifact.state), batch, ()).last()
    step = Step(artifact, "cpu")
    try:
        return step.evaluated(batch)
    finally:
        step.close()
