"""Which programs of a step verification compares: all that were asked for, otherwise what is cheap together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dmc
from dmc.analysis.amounts import Amount
from dmc.errors import EagerError
from dmc.importer.forward.precision import Precision
from dmc.observer import RecordingObserver
from dmc.runtime.files.artifact import EVALUATION, TRAINING
from dmc.verification import Request, Subject, Verification
from dmc.verification.estimate import Rates
from dmc.verification.reference import eager_step
from tests.artifacts import artifact_of

# A tenth of this is what may be spent.
SECONDS = 100.0
NAMES: tuple[str, ...] = (TRAINING, EVALUATION, "training-1", "evaluation-1")


def _compared(
    monkeypatch: pytest.MonkeyPatch, costs: Mapping[str, int], asked: bool | None, raised: str = ""
) -> tuple[list[str], list[str]]:
    """The programs that are compared, and the notes. costs: of each, in seconds. raised: where eager fails."""
    compared: list[str] = []

    def compare(_: Any, name: str, *__: Any) -> None:
        compared.append(name)
        if name == raised:
            raise EagerError("the model", "has no step", hint="none")

    monkeypatch.setattr(Rates, "measured", lambda: Rates(1.0, 0.0, 0.0))
    monkeypatch.setattr(Verification, "_compare", compare)
    request: Any = SimpleNamespace()
    subjects = {name: Subject(request, Amount(flops=cost)) for name, cost in costs.items()}
    programs = {name: replace(artifact_of(), state=()) for name in costs if name != TRAINING}
    observer = RecordingObserver()
    Verification(subjects, artifact_of(programs=programs), asked, SECONDS, observer).run()
    return compared, observer.notes


def test_a_program_that_costs_too_much_beside_the_others_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = dict(zip(NAMES, (4, 1, 7, 5), strict=True))
    compared, (note,) = _compared(monkeypatch, costs, None)
    assert compared == [TRAINING, EVALUATION, "evaluation-1"]
    assert note.startswith(
        "not verified: program 'training-1': a step of eager takes about 7.0 s, beside 5.0 s for other programs, "
        "more than a tenth of the 100.0 s of compilation"
    )
    assert _compared(monkeypatch, costs, True) == (list(NAMES), [])
    assert _compared(monkeypatch, costs, False) == ([], [])


def test_a_program_without_a_step_of_eager_is_noted_and_the_others_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = dict.fromkeys(NAMES, 1)
    assert _compared(monkeypatch, costs, None, EVALUATION) == (list(NAMES), ["not verified: the model: has no step"])
    with pytest.raises(EagerError, match="has no step"):
        _compared(monkeypatch, costs, True, EVALUATION)


class _Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.body, x, use_reentrant=False).sum()


def test_dropout_that_the_backward_pass_draws_again_has_no_step_of_eager() -> None:
    example = {"x": torch.ones(2, 4)}
    request = Request.of(_Checkpointed(), None, dmc.optim.SGD(lr=0.1), example, Precision.FP32, 1, 0)
    with pytest.raises(EagerError, match="draws random numbers in its backward pass"):
        Subject(request, Amount()).eager(lambda own: eager_step(own, 0))


def test_what_a_model_raises_is_named_at_its_line() -> None:
    example = {"input": torch.tensor([9])}
    model = nn.Embedding(4, 1)
    request = Request.of(model, None, dmc.optim.SGD(lr=0.1), example, Precision.FP32, 1, 0)
    with pytest.raises(EagerError, match="raises IndexError: index out of range in self\n  hint: fix the model"):
        Subject(request, Amount()).eager(lambda own: eager_step(own, 0))
