"""Cuts and schedules of a pipeline that do not fit the model: each error names the place, the fact and a way out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from torch import nn

import dmc
from dmc.errors import DmcError
from tests.pipelined import compiled, layers, two_stages

SCHEDULES = {
    "missing": (
        "0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n",
        "rank 1, 1B1, backward of stage 1, micro-batch 1: is missing\n  hint: add 1B1, or 1I1 and 1W1",
    ),
    "twice": (
        "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1F1,1B1\n",
        "rank 1, column 3, 1F1, forward of stage 1, micro-batch 1: stands twice, first in column 2\n  hint: every",
    ),
    "one row": (
        "0F0,1F0,1B0,0B0,0F1,1F1,1B1,0B1\n",
        "schedule 'mine.csv': number of its rows: 1; of ranks along 'pp': 2\n  hint: give a row for each rank",
    ),
    "deadlock": (
        "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
        "a deadlock, every rank waits: rank 0 in 0B0 for 1B0 of rank 1; rank 1 in 1F1 for 0F1 of rank 0\n  hint: move",
    ),
    "backward in another order": (
        "0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0\n",
        "rank 1, column 3, 1B0, backward of stage 1, micro-batch 0: comes after 1B1, but what micro-batches add to is "
        "added to in their order\n  hint: let each stage run its forward passes, and its backward passes, by number",
    ),
    "weights in another order": (
        "0F0,0F1,0B0,0B1\n1F0,1F1,1I0,1I1,1W1,1W0\n",
        "rank 1, column 5, 1W0, gradient of weights of stage 1, micro-batch 0: comes after 1W1",
    ),
    "forward in another order": (
        "0F1,0F0,0B0,0B1\n1F1,1F0,1B0,1B1\n",
        "rank 0, column 1, 0F0, forward of stage 0, micro-batch 0: comes after 0F1",
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_that_is_wrong(name: str, tmp_path: Path) -> None:
    text, message = SCHEDULES[name]
    file = tmp_path / "mine.csv"
    file.write_text(text)
    with pytest.raises(DmcError, match=re.escape(message)):
        compiled(layers(), plan=two_stages(schedule=file), verify=False)


def test_cuts_out_of_order() -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)))
    plan = dmc.plan(dmc.Mesh(pp=3)).pipeline("pp", cut=[".2", ".1"], microbatches=2)
    message = "module '1' runs before module '2'\n  hint: list the modules in the order in which the forward pass runs"
    with pytest.raises(DmcError, match=re.escape(message)):
        compiled(model, plan=plan, verify=False)


@pytest.mark.parametrize("nothing", [nn.Identity(), nn.Dropout(0.0), nn.Dropout(0.5).eval()], ids=str)
def test_a_module_that_computes_nothing(nothing: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nothing, nn.Linear(8, 8))
    message = "module '1': computes nothing in the forward pass\n  hint: cut where a module begins that computes with"
    with pytest.raises(DmcError, match=re.escape(message)):
        compiled(model, plan=two_stages(".1"), verify=False)
