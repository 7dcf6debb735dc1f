"""README is short, has its picture, and links to what proves each claim."""

from __future__ import annotations

import io
import json
import re

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG

from bench import architecture
from dmc.pipeline import STAGES
from tests.markdown import ROOT, links

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 150


def test_it_is_short_and_has_a_picture() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES
    assert "docs/architecture.svg" in [target for _, target in links(TEXT)]


def test_the_picture_is_what_its_script_draws() -> None:
    with mpl.rc_context(architecture.STYLE):
        FigureCanvasSVG(architecture.picture()).print_svg(stream := io.StringIO(), metadata={"Date": None})
    drawn, kept = (re.findall(r"<!-- (.*?) -->", text) for text in (stream.getvalue(), architecture.PATH.read_text()))
    assert drawn == kept, "run python -m bench.architecture"
    assert {stage.form.name for stage in STAGES} <= set(kept)


def test_its_table_of_speed_is_that_of_a_result() -> None:
    table = TEXT.partition("| model | dmc | best peer |")[2].partition("\n\n")[0]
    times = [float(row.split("|")[2]) for row in table.splitlines()[2:]]
    results = json.loads((ROOT / "bench" / "results" / "gpu_step.json").read_text())
    found = {round(value, 1) for value in _numbers(results)}
    assert len(times) == 5 and set(times) <= found


def test_each_row_of_what_works_links_to_what_shows_it() -> None:
    rows = TEXT.partition("| | | shown by |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 7
    assert all("](" in row.rsplit("|", 2)[1] for row in rows)


def _numbers(value: object) -> list[float]:
    match value:
        case dict():
            return [number for each in value.values() for number in _numbers(each)]
        case list():
            return [number for each in value for number in _numbers(each)]
        case float():
            return [value]
        case _:
            return []
