"""A table that ranks keep in columns is looked up where these are: rows move, not the table."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dmc
from tests.compiled import compile_case, model_state, train
from tests.large import large
from tests.models.case import Case
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

MESHES = {2: dmc.Mesh(dp=2), 4: dmc.Mesh(dp=4)}
# No mesh divides the rows. A smaller table is not worth a cast before it is gathered.
ROWS, WIDTH, BATCH, LENGTH = 4099, 8, 4, 5
OPTIMIZER = dmc.optim.AdamW(lr=0.01, clip_grad_norm=1.0)


class Words(nn.Module):
    """A table that embeds tokens, twice where `twice`, and classifies them, where it is tied."""

    def __init__(self, tied: bool, twice: bool) -> None:
        super().__init__()
        self.table, self.twice = nn.Embedding(ROWS, WIDTH, padding_idx=3), twice
        self.head = nn.Linear(WIDTH, ROWS if tied else 3, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """i64[batch, length] → f32[batch · length, classes]."""
        rows = self.table(tokens)
        if self.twice:
            rows = rows + self.table(tokens.flip(0))
        return self.head(torch.tanh(rows)).flatten(0, 1)


def _case(tied: bool, twice: bool) -> Case:
    torch.manual_seed(0)
    return Case("words", Words(tied, twice), nn.functional.cross_entropy, _batch)


def _batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(ROWS, (BATCH, LENGTH), generator=generator)
    return tokens, torch.randint(3, (BATCH * LENGTH,), generator=generator)


@pytest.mark.parametrize(
    ("ranks", "tied", "twice", "precision", "moves"),
    [
        pytest.param(2, False, False, "fp32", True, marks=large),
        (4, False, True, "fp32", True),
        (2, True, False, "bf16-mixed", True),
        # The head reads the whole table as it is, so it is there for the lookup, too.
        (2, True, False, "fp32", False),
    ],
)
def test_ranks_train_as_one(ranks: int, tied: bool, twice: bool, precision: str, moves: bool) -> None:
    batches = [_batch(seed) for seed in range(3)]
    case = _case(tied, twice)
    start = {key: tensor.clone() for key, tensor in case.model.state_dict().items()}
    alone = compile_case(case, OPTIMIZER, precision=precision)
    expected = train(alone, batches)
    mesh = MESHES[ranks]
    plan = dmc.plan(mesh).use(dmc.plans.zero2("dp"))
    step = compile_case(_case(tied, twice), OPTIMIZER, mesh=mesh, plan=plan, precision=precision)
    tolerance = TOLERANCE["mesh" if precision == "fp32" else precision]
    assert_losses_close(train(step, batches), expected, tolerance)
    assert_states_close(start, model_state(step), model_state(alone), tolerance)
    assert step.differing_replicas() == ()
    entries = step.ledger().entries
    gathered = [each.dtype for each in entries if each.kind == "all_gather" and each.tensor == "table.weight"]
    assert gathered == ([] if moves and not tied else ["bf16" if precision != "fp32" else "f32"])
    parts = (BATCH, LENGTH, WIDTH // ranks)
    exchanged = [each for each in entries if each.kind == "all_to_all" and each.shape == parts]
    assert len(exchanged) == (2 if twice else 1) * moves
