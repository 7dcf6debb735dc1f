"""Reports and progress in Python: what `print` and a notebook show, and when stages are shown."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.errors import DmcError
from dmc.observer import Observer
from dmc.program.movements import Entry
from dmc.program.sizes import size_text
from dmc.progress import BarObserver, LogObserver, PlainObserver, shown
from dmc.runtime.reports.ledger import Ledger
from dmc.runtime.reports.memory.report import report
from dmc.runtime.reports.plan.report import PlanReport
from dmc.runtime.reports.report import Report
from tests.random_jobs import random_job

JOB = random_job(0)
SENT = Entry("all_gather", "h.0.<w>", "f32", (320,), ("dp",), 2, 1280, "why", "place", "label")
REPORTS: dict[str, tuple[Report, str]] = {
    "ledger": (Ledger({"dp": 2}, (SENT,), (640, 640)), "1.28 kB in one step"),
    "memory": (report(JOB), "the peak is at command"),
    "plan": (PlanReport.of(JOB, 0), "commands on"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_prints_and_is_html_in_a_notebook(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, said = REPORTS[name]
    assert said in str(made)
    html = made._repr_html_()  # pyright: ignore[reportPrivateUsage] - as a notebook calls it
    assert html.startswith("<pre style=") and said in html
    assert "<w>" not in html, "text is escaped"
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert max(map(len, str(made).splitlines())) <= 60


def test_the_lines_of_a_plan_by_label() -> None:
    labels = [line.label for line in PlanReport.of(JOB, 0).lines if line.label]
    chosen = PlanReport.of(JOB, 0, labels[0])
    assert 0 < len(chosen.lines) < len(PlanReport.of(JOB, 0).lines)
    assert {line.label for line in chosen.lines} == {labels[0]}


def test_sizes_are_by_thousands() -> None:
    sizes = {999: "999 B", 1000: "1.00 kB", 94_216_200: "94.22 MB", 999_999: "1.00 MB", 3 * 10**12: "3.00 TB", 0: "0 B"}
    assert {size: size_text(size) for size in sizes} == sizes
    assert size_text(94_216_200, exact=True) == "94,216,200 B"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("progress", "stream", "kind"),
    [
        (None, _Terminal(), BarObserver),
        (True, _Terminal(), BarObserver),
        (False, _Terminal(), Observer),
        (None, io.StringIO(), LogObserver),
        (False, io.StringIO(), Observer),
        (True, io.StringIO(), PlainObserver),
    ],
)
def test_progress_is_shown_on_a_terminal_or_by_request(
    progress: bool | None, stream: io.StringIO, kind: type[Observer]
) -> None:
    with shown(progress, stream) as observer, observer.stage("placed"):
        assert type(observer) is kind
    assert ("placed" in stream.getvalue()) == (kind in (BarObserver, PlainObserver))


def test_an_observer_takes_the_place_of_the_display() -> None:
    message = "progress: is given beside an observer, which takes the place of the display"
    example = torch.zeros(1, 1), torch.zeros(1, 1)
    given: dict[str, Any] = {"loss": nn.functional.mse_loss, "optimizer": dmc.optim.SGD(lr=0.1), "example": example}
    with pytest.raises(DmcError, match=message):
        dmc.compile_artifact(nn.Linear(1, 1), **given, progress=True, observer=Observer())
