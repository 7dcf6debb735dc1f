"""Random programs of what masks choose, beside PyTorch eager; `tests/random_choices.py` lists what they may do."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from dmc.errors import ImportFailure
from tests.choosing import Choosing, Use, batch, itself
from tests.eager import EagerTrainer
from tests.interpreted import RATE, assert_trains_as_eager
from tests.large import large
from tests.random_choices import program


def _is_defined(use: Use, model: Choosing, batches: list[tuple[torch.Tensor, ...]]) -> bool:
    """Whether eager computes finite losses."""
    eager = copy.deepcopy(model)
    trainer = EagerTrainer(eager, itself, torch.optim.SGD(eager.parameters(), lr=RATE))
    try:
        return all(math.isfinite(float(trainer.step(each))) for each in batches)
    except (RuntimeError, IndexError):
        return False


@pytest.mark.parametrize(
    ("first", "count"), [(0, 20), pytest.param(1000, 400, marks=large), pytest.param(2000, 400, marks=large)]
)
def test_programs_train_as_eager(context: Any, first: int, count: int) -> None:
    """Most of those for which eager is defined; the others are refused, not computed otherwise."""
    defined = computed = 0
    for seed in range(first, first + count):
        use, words = program(seed)
        torch.manual_seed(seed)
        model, batches = Choosing(use), [batch(), batch(0.3), batch(0.7)]
        if not _is_defined(use, model, batches):
            continue
        defined += 1
        try:
            assert_trains_as_eager(context, model, itself, batches)
        except ImportFailure:
            continue
        except AssertionError as error:
            raise AssertionError(f"{seed}: {words}") from error
        computed += 1
    assert computed > 0.8 * defined
