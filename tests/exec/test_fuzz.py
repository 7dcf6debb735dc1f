"""Random training steps, and those that once differed from PyTorch eager; `make matrix` runs an hour of new ones."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dmc.importer.decompositions import decompositions
from tests.fuzz import campaign
from tests.fuzz.campaign import Drawing, Drawn
from tests.fuzz.check import FINDS, Way, check
from tests.fuzz.generate import drawn, generate, is_valid
from tests.fuzz.leaves import FLOATS
from tests.fuzz.operators import EVERY
from tests.fuzz.program import Leaf, Line, Program, source
from tests.fuzz.shrink import shrink
from tests.fuzz.train import PLAIN, Mode, case_of
from tests.fuzz.workers import Request, Worker
from tests.large import large_unless

FOUND = sorted((Path(__file__).parents[1] / "fuzz" / "finds").glob("[a-z]*.py"))
SEEDS, AT_ONCE = 60, 15
MODES = (Mode(), Mode(precision="bf16-mixed"), Mode(accumulate=2), Mode(ranks=2))


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A process of its own, so that a crash is one program's."""
    worker = Worker()
    yield worker
    worker.close()


# They are the same each time.
@pytest.mark.parametrize("first", large_unless((0,), range(0, SEEDS, AT_ONCE)))
def test_random_steps(worker: Worker, first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        text = source(drawn(seed))
        verdict = worker.check(Request(text))
        assert verdict.outcome not in FINDS, f"seed {seed}: {verdict.outcome}: {verdict.text}\n{text}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found(worker: Worker, path: Path) -> None:
    way: Way = "compiled" if path.stem.endswith("_compiled") else "interpreter"
    text = path.read_text(encoding="utf-8")
    verdict = worker.check(Request(text, way, case_of(text).mode))
    assert verdict.outcome not in FINDS, verdict.text


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_compiled_steps(worker: Worker, mode: Mode) -> None:
    verdict = worker.check(Request(source(_program()), "compiled", mode))
    assert verdict.outcome == "agrees", verdict


def test_a_program_says_its_mode() -> None:
    for mode in MODES:
        assert case_of(source(_program(), mode=repr(mode))).fresh().mode == mode
    assert case_of(source(_program())).mode == PLAIN


def test_a_wrong_decomposition_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: torch.Tensor, dim: int, **options: Any) -> torch.Tensor:
        return x * 2

    table = {**decompositions.table(), torch.ops.aten.cumsum.default: wrong}
    monkeypatch.setattr(decompositions, "table", lambda: table)
    program = _program()
    assert check(source(program)).outcome == "differs"
    small = shrink(program, lambda each: is_valid(each) and check(source(each)).outcome == "differs")
    assert small.operators() == ("cumsum",)
    assert len(small.leaves) == 2


def test_a_crash_is_one_programs() -> None:
    worker = Worker()
    text = source(_program())
    assert worker.check(Request(text + "\nimport os\nos.abort()\n")).outcome == "crashes"
    assert worker.check(Request(text)).outcome == "agrees"
    worker.close()


def test_every_operator_can_be_drawn() -> None:
    for operator in EVERY:
        assert operator in generate(random.Random(0).randrange, operator).operators()


def _program() -> Program:
    """A few lines, among them a running sum, that every mode can train."""
    numbers = (FLOATS * 2)[:8]
    leaves = (
        Leaf("self.p0", "parameter", "float32", (2,), numbers[:2]),
        Leaf("self.b0", "buffer", "float32", (2,), numbers[2:4]),
        Leaf("x0", "input", "float32", (4, 2), numbers),
    )
    lines = (
        Line("mul", "{0} * {1}", ("self.p0", "x0"), ("v0",)),
        Line("cumsum", "{0}.cumsum(1)", ("v0",), ("v1",)),
        Line("relu", "{0}.relu()", ("v1",), ("v2",)),
        Line("buffer_add_", "{0}.add_({1}[0].detach())", ("self.b0", "x0"), ()),
        Line("sub", "{0} - {1}", ("v2", "self.p0"), ("v3",)),
    )
    return Program(leaves, lines, ("self.p0", "v3"), ("v1",), "dmc.optim.SGD(lr=0.125, momentum=0.5)")


class Deadly(Drawing):
    """Eager crashes in what is drawn, as PyTorch 2.13's backward pass does in the program of seed 441004075."""

    def verdict(self) -> Drawn:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError("not reached")


def test_a_crash_of_eager_ends_no_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "Drawing", Deadly)
    tally = campaign.Campaign(0, 1.0, 1, 0.0, lambda find: None).run()
    assert set(tally.outcomes) == {"eager crashes"} and not tally.finds
