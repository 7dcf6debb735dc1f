"""The gradient of a large table on ranks: rows move, not tables."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dmc
from tests.compiled import compile_case, model_state, train
from tests.large import large
from tests.models.case import Case
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

DP2 = dmc.Mesh(dp=2)
PLANS = {"data_parallel": "all_reduce", "zero2": "reduce_scatter"}
ROWS, WIDTH, BATCH, LENGTH = 512, 8, 4, 4
OPTIMIZER = dmc.optim.AdamW(lr=0.01, clip_grad_norm=1.0)


class Words(nn.Module):
    """A table that embeds tokens, and classifies them, too, where it is tied."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH)
        self.head = nn.Linear(WIDTH, 3 if not tied else ROWS, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """i64[batch, length] → f32[batch · length, classes]."""
        return self.head(torch.tanh(self.table(tokens))).flatten(0, 1)


def _case(tied: bool) -> Case:
    torch.manual_seed(0)
    return Case("words", Words(tied), nn.functional.cross_entropy, _batch)


def _batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(ROWS, (BATCH, LENGTH), generator=generator)
    return tokens, torch.randint(3, (BATCH * LENGTH,), generator=generator)


@pytest.mark.parametrize("tied", [pytest.param(False, marks=large), True], ids=("apart", "tied"))
@pytest.mark.parametrize("name", PLANS)
def test_rows_move(name: str, tied: bool) -> None:
    """Every rank adds the rows of all to the table, or to its part; the head's gradient is summed as any other."""
    batches = [_batch(seed) for seed in range(3)]
    case = _case(tied)
    start = {key: tensor.clone() for key, tensor in case.model.state_dict().items()}
    alone = compile_case(case, OPTIMIZER)
    expected = train(alone, batches)
    step = compile_case(_case(tied), OPTIMIZER, mesh=DP2, plan=dmc.plan(DP2).use(getattr(dmc.plans, name)("dp")))
    assert_losses_close(train(step, batches), expected, TOLERANCE["mesh"])
    assert_states_close(start, model_state(step), model_state(alone), TOLERANCE["mesh"])
    assert step.differing_replicas() == ()
    entries = step.ledger().entries
    rows = [each.bytes for each in entries if each.kind == "all_gather" and each.shape == (BATCH // 2, LENGTH, WIDTH)]
    assert rows == [4 * BATCH * LENGTH * WIDTH]
    tables = [each.kind for each in entries if each.tensor == "gradient of table.weight"]
    assert tables == ([PLANS[name]] if tied else [])
