"""The timeline page: it needs nothing else, says what it must, and its scripts run."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench.gpt_job import Shape, gpt_job
from dmc.machine import machine
from dmc.simulator import Simulation, simulate
from dmc.simulator.timeline import timeline_page
from tests.hand_made_jobs import DP, Rank, job_of, round_machine
from tests.page_script import evaluate

WHYS = {"gradient of h.1": 'data_parallel("dp")'}


@pytest.fixture(scope="module")
def played() -> Simulation:
    return simulate(gpt_job(Shape(layers=2, width=64, tokens=128), 2), machine("h200x2"))


def _data(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


class _Reader(HTMLParser):
    """The text of a page, its tags with their attributes, and whether every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data.strip())


def test_it_needs_nothing_else(played: Simulation) -> None:
    page = timeline_page(played)
    reader = _Reader(page)
    assert reader.open == []
    loading = {"src", "href", "srcset", "action", "background"}
    assert [tag for tag, attributes in reader.tags if tag == "link" or loading & set(attributes)] == []
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\b[ (]|WebSocket", page)
    assert not re.search(r"@\w+@", page)


def test_it_says_what_it_must(played: Simulation) -> None:
    text = " ".join(_Reader(timeline_page(played, title="GPT")).text)
    for words in (
        "GPT on h200x2",
        "Predicted for 2 ranks",
        "Exposed communication",
        "Peak device memory",
        "Critical path",
        "What computation waits for",
        "Lanes",
        "copy_in",
        "gradient of h.0",
        "h.*.attention forward",
        "Device memory at the peak of rank 0",
    ):
        assert words in text


def test_its_data_are_the_simulation(played: Simulation) -> None:
    data = _data(timeline_page(played, whys=WHYS))
    spans, strings = data["spans"], data["strings"]
    assert {len(column) for column in spans.values()} == {len(played.spans)}
    assert data["step"] == pytest.approx(played.step_ns, abs=0.1)
    assert [lane["name"] for lane in data["ranks"][0]["lanes"]] == ["compute", "dp", "copy_in", "copy_out"]
    memory = data["ranks"][0]["memory"]
    # Colours are of the categories, the legend of their names.
    assert memory["categories"] == ["parameter", "gradient", "activation"]
    assert memory["names"] == ["weights", "gradients", "activations"]
    first = next(n for n, title in enumerate(spans["title"]) if strings[title] == "gradient of h.1")
    assert data["kinds"][spans["kind"][first]] == "all_reduce"
    assert spans["bytes"][first] == 2 * 12 * 64**2
    assert strings[spans["asked"][first]] == 'data_parallel("dp")'
    assert strings[spans["after"][first]] == "after h.1.down backward1 on lane compute"
    assert strings[spans["title"][spans["cause"][first]]] == "h.1.down backward1"


def test_labels_open_no_tags() -> None:
    label = "</script><img src=x>@style@&\u2028"
    job = job_of(Rank().launch(5, label))
    page = timeline_page(simulate(job, round_machine()), title="<b>")
    assert "<img" not in page
    assert "<title>&lt;b&gt; on round</title>" in page
    assert label in _data(page)["strings"]
    assert _Reader(page).open == []


def test_a_few_ranks_of_many_are_shown() -> None:
    job = job_of(*(Rank(rank).launch(5) for rank in range(10)))
    played = simulate(job, round_machine())
    assert "8 of 10 ranks are shown" in timeline_page(played)
    assert [rank["rank"] for rank in _data(timeline_page(played, ranks=[9, 3]))["ranks"]] == [9, 3]


def test_a_grown_job_says_so() -> None:
    played = simulate(gpt_job(Shape(layers=1, width=64, tokens=128), 2), machine("node8"), ranks=1024)
    page = timeline_page(played)
    assert "Predicted for 1,024 ranks" in page
    assert "represents 1,024 equivalent ones" in page


def test_equal_simulations_give_equal_pages(played: Simulation) -> None:
    again = simulate(gpt_job(Shape(layers=2, width=64, tokens=128), 2), machine("h200x2"))
    assert timeline_page(again) == timeline_page(played)


def test_the_scripts_draw_lanes_and_labels(played: Simulation, tmp_path: Path) -> None:
    drawn = evaluate(timeline_page(played), "drawn", tmp_path)
    assert {"rank 0", "rank 1", "compute", "dp", "copy_in", "copy_out"} <= set(drawn)
    assert any(text.startswith("computes ") for text in drawn)
    assert any(text.startswith(("peak ", "arena ")) for text in drawn)


def test_hovering_tells_what_a_command_is(tmp_path: Path) -> None:
    ranks = [
        Rank(rank).launch(ns, "h.0.mlp").record(0).wait(0, DP).reduce(10, 7, label="gradient of h.1")
        for rank, ns in ((0, 5), (1, 30))
    ]
    page = timeline_page(simulate(job_of(*ranks), round_machine()), whys=WHYS)
    row = "rows.find((row) => !row.heading && row.r === 0 && row.l === 1)"
    text = evaluate(page, f"describe(spanAt(x(35), {row}.y + 5)).text", tmp_path)
    for words in (
        "gradient of h.1",
        "all_reduce on dp",
        "10 B",
        "25 ns for other members",
        "after h.0.mlp on lane compute of rank 1",
        'data_parallel("dp")',
        "rank 0, lane dp, command 3",
    ):
        assert words in text
    assert evaluate(page, f"[spanAt(x(2), {row}.y + 5), spanAt(x(20), {row}.y + 5) >= 0]", tmp_path) == [-1, True]


def test_zooming_and_panning_keep_to_the_step(played: Simulation, tmp_path: Path) -> None:
    page = timeline_page(played)
    steps = "zoom(0.5), pan(0.5), [view.from > 0, view.to > view.from, view.to <= STEP * 1.02]"
    assert evaluate(page, f"({steps})", tmp_path) == [True, True, True]
    ends = "(pan(-50), zoom(100), [view.from >= -0.011 * STEP, view.to <= STEP * 1.02])"
    assert evaluate(page, ends, tmp_path) == [True, True]


def test_memory_at_a_moment(played: Simulation, tmp_path: Path) -> None:
    live = dict(evaluate(timeline_page(played), "memoryAt(0)", tmp_path))
    assert live["weights"] == 2 * 2 * 12 * 64**2
