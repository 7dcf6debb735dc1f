"""How a sweep counts what its samples came to, and what a step of samples is made of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional
from transformers import GPT2Config

from bench.coverage import architectures
from bench.coverage.check import OUTSIDE, check
from bench.coverage.report import classified, known, summary
from bench.coverage.steps import Sample, case_of
from bench.coverage.sweep import NONE, Sweep, Task, entries
from tests.fuzz import workers
from tests.fuzz.check import Verdict
from tests.fuzz.train import Mode, by_eager


def _verdict(outcome: str, kind: str = "", text: str = "") -> dict[str, str]:
    return {"outcome": outcome, "kind": kind, "text": text}


class _Worker:
    """Answers for a process: all samples of "a" agree, the second of "b" does not."""

    open = 0

    def __init__(self, preload: str) -> None:
        assert preload == "bench.coverage.preload"
        _Worker.open += 1

    def check(self, task: Task) -> Verdict:
        if task.sample == 2:
            return NONE
        return Verdict("agrees") if task.name == "a" or task.sample == 0 else Verdict("differs", task.name)

    def close(self) -> None:
        _Worker.open -= 1


def test_a_sweep_tries_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples one by one where all together do not agree; what was tried is not tried again."""
    monkeypatch.setattr(workers, "Worker", _Worker)
    sweep = Sweep("modules", tmp_path / "found.jsonl")
    for names in (["a"], ["a", "b"]):
        sweep.run(names, jobs=2)
    found = [(each["name"], [verdict["outcome"] for verdict in each["verdicts"]]) for each in entries(sweep.path)]
    assert found == [("a", ["agrees"]), ("b", ["agrees", "differs"])]
    assert _Worker.open == 0


def test_the_worst_sample_decides() -> None:
    right, outside = _verdict("agrees"), _verdict("refused", OUTSIDE, "complex numbers")
    refused, wrong = _verdict("refused", "(a/b.py:3): aten.x cannot be compiled"), _verdict("differs", "", "loss: off")
    found = [
        classified("a", [right, outside, _verdict("uncertain")]),
        classified("b", [right, refused]),
        classified("c", [right, refused, wrong]),
        classified("d", [outside]),
        classified("e", [_verdict("crashes", "SIGSEGV")]),
    ]
    assert [each.kind for each in found] == ["right", "refused", "wrong", "outside", "refused"]
    assert found[1].reason == "1 of 2 samples: aten.x cannot be compiled"
    result = summary(found)
    assert (result["right"], result["refused"], result["wrong"], result["outside"]) == (1, 2, 1, 1)
    assert sorted(known(result), key=lambda each: each.name) == found, "a later report keeps them"
    assert result["lists"]["right"] == ["a"] and result["lists"]["refused"]["e"] == "crashes: SIGSEGV"


def test_gradients_at_other_places_are_seen() -> None:
    """Samples are parameters and inputs of one step; what they write into is a buffer of it."""
    x, statistics = torch.randn(3, requires_grad=True), torch.zeros(3)
    case = case_of([Sample(lambda a, b: a.flip(0) + b.add_(1.0), (x, statistics)), Sample(torch.roll, (x, 1))])
    assert [name for name, _ in case.module.named_buffers()] == ["calls.0.x1"] and not case.inputs
    trace = by_eager(case, steps=1)[0]
    slopes = (case.module.get_parameter("calls.0.x0") - trace["calls.0.x0"]).detach()
    assert len(set(slopes.tolist())) == 3


def test_what_no_step_contains_is_told() -> None:
    outside = check([Sample(torch.view_as_complex, (torch.randn(3, 2, requires_grad=True),))])
    assert (outside.kind, outside.text) == (OUTSIDE, "complex numbers")
    drawn = check([Sample(lambda x: x * torch.poisson(x.detach().exp()), (torch.randn(3, requires_grad=True),))])
    assert (drawn.kind, drawn.text) == (OUTSIDE, "draws random numbers")


def test_what_eager_does_not_take_under_autocast_is_outside() -> None:
    sample = Sample(lambda x: torch.linalg.pinv(x @ x), (torch.eye(3).requires_grad_(),))
    outside = check([sample], mode=Mode("bf16-mixed"))
    assert outside.kind == OUTSIDE and "linalg.pinv" in outside.text
    assert check([sample]).outcome == "agrees"


def test_what_a_step_draws_is_compared_with_the_same_draws() -> None:
    x = torch.randn(30, requires_grad=True)
    assert check([Sample(lambda x: functional.dropout(x, 0.5) * torch.rand_like(x), (x,))]).outcome == "agrees"


def test_a_large_model_is_refused_before_it_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table alone would need more than there are addresses."""
    large = GPT2Config(vocab_size=1 << 42, n_embd=32, n_head=4, n_layer=1)
    monkeypatch.setattr(architectures, "tiny", lambda *_: large)
    with pytest.raises(ValueError, match=r"^140737\d{9} parameters, though its sizes are small"):
        architectures.samples("gpt2")


def test_a_refusal_is_outside_for_what_it_names() -> None:
    """A model may contain what no step does, and be refused for something else."""
    x = torch.randn(3, requires_grad=True)
    chosen = check([Sample(lambda x: x[x > 0.0], (x,))])
    assert chosen.kind == OUTSIDE and chosen.text.startswith("a shape depends on data: the shape of an output")
    # PyTorch says so of every index.
    other = check([Sample(lambda x: torch.nextafter(x[torch.tensor([1, 0, 2])], x + 1.0), (x,))])
    assert other.outcome == "refused" and other.kind != OUTSIDE
