"""The ledger as data, and as text: totals, lower bounds, one line for layers that are alike."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest

from dmc.program.movements import Bound, Entry, Total
from dmc.runtime.reports.ledger import Ledger

RULE = 'data_parallel("dp", zero=2)'


def _entry(kind: str, tensor: str, size: int, axes: tuple[str, ...] = ("dp",), why: str = RULE) -> Entry:
    return Entry(kind, tensor, "f32", (8,), axes, 4, size, why, f"{tensor}#aten.mm (gpt.py:3)")


# Two layers on dp=2, tp=2: the second gathers its weight twice.
LEDGER = Ledger(
    mesh={"dp": 2, "tp": 2},
    entries=(
        _entry("reduce_scatter", "gradient of h.0.w", 100),
        _entry("all_gather", "h.0.w", 100),
        _entry("reduce_scatter", "gradient of h.1.w", 100),
        _entry("all_gather", "h.1.w", 100),
        _entry("all_gather", "h.1.w", 100),
        _entry("all_reduce", "h.0.mlp", 30, ("tp",), "h.0.mlp#aten.addmm"),
        _entry("all_reduce", "h.1.mlp", 30, ("tp",), "h.1.mlp#aten.addmm"),
        _entry("all_reduce", "gradient of h.1.w", 7, ("tp",)),
        _entry("all_reduce", "", 1, ("dp", "tp"), ""),
    ),
    ranks=(142, 142, 142, 142),
    bounds=(Bound("h.0.w", ("dp",), 200), Bound("h.1.w", ("dp",), 200), Bound("h.0.mlp", ("tp",), 20)),
)


def _lines(text: str) -> list[str]:
    return [re.sub("  +", " | ", line.strip()) for line in text.splitlines()]


def test_totals() -> None:
    assert LEDGER.bytes == 568
    assert LEDGER.by_kind() == {"all_gather": 300, "reduce_scatter": 200, "all_reduce": 68}
    assert list(LEDGER.by_kind()) == ["all_gather", "reduce_scatter", "all_reduce"]
    assert LEDGER.by_axes() == {("dp",): 500, ("tp",): 67, ("dp", "tp"): 1}


def test_bounds_count_tensors_and_gradients_over_the_axes_of_data() -> None:
    assert LEDGER.totals == dict(zip(LEDGER.bounds, (Total(200, 200), Total(300, 200), Total(30, 20)), strict=True))
    assert LEDGER.bounded() == {("dp",): Total(500, 400), ("tp",): Total(30, 20)}
    assert LEDGER.totals[LEDGER.bounds[1]].ratio == 1.5
    assert Total(3).ratio is None


def test_a_movement_counts_towards_the_innermost_module_around_it() -> None:
    bounds = Bound("h", ("tp",), 1), Bound("h.0.mlp", ("tp",), 1), Bound("h.0.mlp", ("dp",), 1)
    ledger = Ledger({"dp": 2, "tp": 2}, bounds=bounds)
    for path, axes, expected in (
        ("h.0.mlp.fc", ("tp",), bounds[1]),
        ("h.0.mlp", ("dp",), bounds[2]),
        ("h.0.mlpx", ("tp",), bounds[0]),
        ("h.0.attn", ("dp",), None),
        ("x.h", ("tp",), None),
        ("", ("tp",), None),
    ):
        assert ledger.bound_of(_entry("all_reduce", path, 1, axes)) == expected


def test_json_goes_there_and_back() -> None:
    assert msgspec.convert(LEDGER.to_json(), Ledger) == LEDGER
    assert msgspec.convert(Ledger().to_json(), Ledger) == Ledger()


@pytest.mark.parametrize("change", [{"entries": [{"kind": "all_reduce"}]}, {"mesh": None}])
def test_json_of_another_shape_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**LEDGER.to_json(), **change}, Ledger)


def test_layers_that_are_alike_share_a_line() -> None:
    lines = _lines(LEDGER.table())
    assert lines[0] == "mesh dp=2, tp=2: 568 B in one step, at most 142 B from one rank"
    for line in (
        f"reduce_scatter | gradient of h.*.w ×2 | f32[8] | dp (4) | 200 B | 1.25 | {RULE}",
        f"all_gather | h.*.w ×3 | f32[8] | dp (4) | 300 B | 1.25 | {RULE}",
        "all_reduce | h.*.mlp ×2 | f32[8] | tp (4) | 60 B | - | h.*.mlp#aten.addmm",
        f"all_reduce | gradient of h.1.w | f32[8] | tp (4) | 7 B | - | {RULE}",
        "all_reduce | - | f32[8] | dp × tp (4) | 1 B | - | -",
        "all_gather | 300 B | 52.8 %",
        "over dp × tp | 1 B | 0.2 %",
        "over dp | 500 B | 400 B | 1.25",
        "over tp | 30 B | 20 B | 1.50",
        "everything else | 38 B | - | -",
    ):
        assert line in lines


def test_every_movement_has_a_line_and_a_place() -> None:
    lines = _lines(LEDGER.table(every=True))
    assert f"all_gather | h.0.w | f32[8] | dp (4) | 100 B | 1.00 | {RULE}" in lines
    assert lines.count(f"all_gather | h.1.w | f32[8] | dp (4) | 100 B | 1.50 | {RULE}") == 2
    assert "h.0.mlp#aten.mm (gpt.py:3)" in lines


def test_only_the_number_of_the_layer_is_left_out() -> None:
    names = ["h.0.mlp.0.w", "h.1.mlp.0.w", "h.0.mlp.2.w", "layer10.w", "layer11.w"]
    lines = _lines(Ledger({"dp": 4}, tuple(_entry("all_gather", name, 1) for name in names)).table())
    shown = [line.split(" | ")[1] for line in lines if line.startswith("all_gather | ") and "f32" in line]
    assert shown == ["h.*.mlp.0.w ×2", "h.0.mlp.2.w", "layer10.w", "layer11.w"]


def test_what_looks_like_markup_is_printed() -> None:
    ledger = Ledger({"dp": 4}, (_entry("all_gather", "x", 1, why='between=["[red]h.*"]'),))
    assert 'between=["[red]h.*"]' in ledger.table()


def test_one_rank_says_so() -> None:
    assert Ledger().table() == "one rank: nothing is sent"
    moved = Ledger(offloaded=(2000,), fetched=(3000,))
    assert [line for line in moved.table().splitlines() if line][1:] == [
        "offloaded: 2.00 kB to host memory and back, of each rank",
        "optimizer state: 3.00 kB from host memory and back, of each rank",
    ]
    assert msgspec.convert(moved.to_json(), Ledger) == moved


def test_what_asked_for_what_has_a_label() -> None:
    labels = (("h.1", "a"), ("h.1", "b"), ("h.1", "a"), ("h.2", ""), ("", "c"))
    entries = [replace(_entry("all_reduce", "", 1), label=label, why=why) for label, why in labels]
    assert Ledger({"dp": 2}, tuple(entries)).whys() == {"h.1": "a; b"}
