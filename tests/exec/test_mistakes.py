"""Each mistake of users is told by what they did, at the place, with a way out; nothing else is printed."""

from __future__ import annotations

import logging
import re
import warnings

import pytest

import dmc
from tests.mistakes import code, numbers, phases, steps, tensors
from tests.mistakes.table import MISTAKES

# Importing them has filled the table.
SUBJECTS = (numbers, code, tensors, steps, phases)
# What tells nothing to users.
_RAW = ("torch._subclasses", "!torch.", "FakeTensorD", "Sym", "unhinted", "u0", "zuf0", "_export_root")


def test_there_are_many() -> None:
    assert len(MISTAKES) >= 60
    assert {mistake.run.__module__ for mistake in MISTAKES.values()} == {subject.__name__ for subject in SUBJECTS}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    mistake = MISTAKES[name]
    with warnings.catch_warnings(), caplog.at_level(logging.ERROR):
        warnings.simplefilter("ignore")  # What PyTorch warns of in eager, too.
        with pytest.raises(dmc.errors.DmcError) as caught:
            mistake.run()
    error = caught.value
    assert re.search(mistake.fact, error.fact, re.DOTALL), f"another fact: {error.fact}"
    assert re.search(mistake.way, error.hint, re.DOTALL), f"another way out: {error.hint}"
    assert mistake.place in error.place
    assert [raw for raw in _RAW if raw in str(error)] == []
    assert capfd.readouterr() == ("", ""), "something is printed beside the error"
    assert caplog.records == []
