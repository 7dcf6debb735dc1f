"""`dmc fit`: the search for the largest batch, and what it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
import dmc.fit
from dmc.cli.fit import size_of
from dmc.cli.main import main
from dmc.errors import DmcError, MemoryCapError
from dmc.fit import Fit, find, planner

STATE, SAMPLE = 1000, 37


def _plan(cap: int, tried: list[int], least: int = SAMPLE) -> Any:
    """least: bytes of a sample where all that can be is computed again."""

    def plan(batch: int) -> Fit:
        tried.append(batch)
        needed = STATE + least * batch
        if needed > cap:
            raise MemoryCapError("the step", "is too large", "", needed)
        return Fit(batch, min(cap, STATE + SAMPLE * batch), 0, 100.0 + batch)

    return plan


@pytest.mark.parametrize(
    ("least", "cap", "plans"),
    [(SAMPLE, 1040, 4), (SAMPLE, 1500, 5), (SAMPLE, 100_000, 6), (11, 1500, 6), (11, 5000, 8)],
)
@pytest.mark.parametrize("step", [1, 4])
def test_the_largest_batch_is_found_in_few_plans(least: int, cap: int, plans: int, step: int) -> None:
    tried: list[int] = []
    search = find(_plan(cap, tried, least), 8, step, cap)
    largest = (cap - STATE) // least // step * step
    assert len(tried) == len(set(tried)) <= plans
    assert all(batch % step == 0 for batch in tried)
    assert search.refused is not None and search.refused[1] == STATE + least * search.refused[0] > cap
    if largest:
        assert 0 <= largest - search.fits[-1].batch <= max(step, largest // 8)
    assert [each.batch for each in search.fits] == sorted(each.batch for each in search.fits)


def test_a_batch_that_needs_more_is_computed_again_in_part() -> None:
    torch.manual_seed(0)
    layers = [each for _ in range(6) for each in (nn.Linear(64, 64), nn.GELU())]
    model = nn.Sequential(nn.Linear(16, 64), *layers, nn.Linear(64, 4))
    loss, example = nn.functional.mse_loss, (torch.zeros(64, 16), torch.zeros(64, 4))
    keywords = {"model": model, "loss": loss, "optimizer": dmc.optim.SGD(lr=0.1), "example": example}
    plan, batch, step = planner(keywords, 1 << 30)
    assert (batch, step) == (64, 1)
    roomy = plan(128)
    assert roomy.recomputed == 0 and roomy.bytes > plan(64).bytes
    with pytest.raises(MemoryCapError) as refusal:
        planner(keywords, 1 << 16)[0](128)
    assert refusal.value.needed < roomy.bytes
    again = planner(keywords, refusal.value.needed)[0](128)
    assert again.recomputed > 0 and again.bytes <= refusal.value.needed
    assert again.ns > roomy.ns and again.per_sample_ns == again.ns / 128


def test_one_batch_is_fitted_not_several() -> None:
    with pytest.raises(DmcError, match=r"example: is a list of several shapes\n  hint: pass one batch"):
        planner({"example": [(torch.zeros(8, 2),), (torch.zeros(4, 2),)]}, 1 << 30)


def test_an_unknown_precision_is_refused_by_name() -> None:
    keywords = {"model": nn.Linear(2, 2), "optimizer": dmc.optim.SGD(lr=0.1), "precision": "fp31"}
    plan, *_ = planner({**keywords, "example": (torch.zeros(8, 2),)}, 1 << 30)
    with pytest.raises(DmcError, match="precision 'fp31': does not exist"):
        plan(8)


def test_a_model_and_a_seed_are_checked_as_by_compile() -> None:
    keywords = {"optimizer": dmc.optim.SGD(lr=0.1), "example": (torch.zeros(8, 2),)}
    for wrong, message in (
        ({"model": nn.functional.relu}, "model: expected a torch.nn.Module"),
        ({"model": nn.Linear(2, 2), "seed": 1.5}, "seed: is 1.5"),
    ):
        with pytest.raises(DmcError, match=message):
            planner({**keywords, **wrong}, 1 << 30)[0](8)


def test_the_command_prints_what_fits_and_what_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "def make_step():\n    return {'model': None, 'optimizer': None, 'example': ()}\n"
    (tmp_path / "fitted_step.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[Any] = []

    def planned(keywords: Any, cap: int) -> Any:
        seen.append((keywords, cap))
        return _plan(cap, []), 8, 1

    monkeypatch.setattr(dmc.fit, "planner", planned)
    command = ["fit", "fitted_step:make_step", "--cap", "2kB", "--target", "cuda", "--plot", "fit.png", "--quiet"]
    assert main(command) == 0
    assert seen == [({"model": None, "optimizer": None, "example": (), "target": "cuda"}, 2000)]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["8", "1.30", "kB", "0", "0", "B", "0.000", "0.01"] in lines
    assert "largest: 27; fastest per sample: 27" in [" ".join(line) for line in lines]
    assert any(line[:1] == ["batch"] and line[-2:] == ["2.00", "kB"] for line in lines)
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
    assert main([*command[:2], "--cap", "1000B", "--quiet"]) == 1, "nothing fits"
    assert "largest" not in capsys.readouterr().out
    monkeypatch.setattr(dmc.fit, "planner", lambda keywords, cap: (lambda batch: Fit(batch, 10, 0, 1.0), 8, 1))
    assert main([*command[:2], "--cap", "2kB", "--quiet"]) == 0
    assert "largest that was tried: 1024;" in capsys.readouterr().out
    monkeypatch.setattr(dmc.fit, "planner", planned)
    searches = len(seen)
    assert main([*command[:-2], "fit.svg", "--quiet"]) == 1
    assert len(seen) == searches, "refused before the search"


def test_a_misspelt_keyword_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("dmc.cli.fit.function_of", lambda source: lambda: {"model": None, "optimiser": None})
    assert main(["fit", "step:make", "--cap", "2kB", "--quiet"]) == 1
    assert "dmc.compile does not accept optimiser\n  hint: return a dict of the keyword" in capsys.readouterr().err


def test_sizes() -> None:
    assert [size_of(text, "--cap") for text in ("80GiB", "24G", "4096", "1.5 kB")] == [
        80 * 2**30,
        24 * 10**9,
        4096,
        1500,
    ]
    for text in ("many", "0", "-1G"):
        with pytest.raises(DmcError, match="is not a size in bytes"):
            size_of(text, "--cap")
