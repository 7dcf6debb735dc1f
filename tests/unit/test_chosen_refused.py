"""What is refused of what masks of data choose, since it needs a row of its own or mixes different masks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dmc.errors import ImportFailure
from dmc.importer.capture.capture import capture
from tests.choosing import WIDTH, Choosing, Use, batch, itself
from tests.interpreted import InterpretedStep


def _changed_between(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    numbers = classes.clone()
    before = m.linear(x)[numbers > 2]
    numbers.view(-1)[0] = 9
    return (before * x[numbers > 2]).sum()


def _written_elsewhere(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    y = m.linear(x).clone()
    y[mask] = x[classes > 2]
    return y.sum()


def _added_in_place(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    return m.linear(x)[mask].mul_(x[classes > 2]).sum()


def _rows_beside_others(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
    return m.linear(x).view(-1, WIDTH).gather(1, classes[mask].unsqueeze(1)).sum()


REFUSED: tuple[tuple[str, Use], ...] = (
    ("combines elements that different masks choose", lambda m, x, mask, c: (m.linear(x)[mask] - x[c > 2]).sum()),
    ("combines elements that different masks choose", _changed_between),
    ("combines elements that different masks choose", _added_in_place),
    ("combines elements that different masks choose", _rows_beside_others),
    (
        "combines elements that different masks choose",
        lambda m, x, mask, c: torch.addmm(m.linear(x)[mask], x[c > 2], m.linear.weight).sum(),
    ),
    ("works along a dimension whose size", lambda m, x, mask, c: functional.embedding(c[0], m.linear(x)[mask]).sum()),
    ("takes how many elements", lambda m, x, mask, c: m.linear(x).view(-1, WIDTH)[: x[mask].shape[0]].sum()),
    ("takes how many elements", lambda m, x, mask, c: m.linear(x).mean() * torch.randperm(x[mask].shape[0]).sum()),
    ("takes how many elements", lambda m, x, mask, c: m.linear(x)[mask][:, : x[0][mask[0]].shape[0]].sum()),
    ("is combined with 10 elements", lambda m, x, mask, c: (m.linear(x)[mask] + torch.ones(10, WIDTH)).sum()),
    ("writes what one mask chooses elsewhere", _written_elsewhere),
    ("works along a dimension whose size", lambda m, x, mask, c: m.linear(x)[mask][:3].sum()),
    ("works along a dimension whose size", lambda m, x, mask, c: m.linear(x)[mask].flip(0).pow(2).sum()),
    ("gives another shape", lambda m, x, mask, c: m.linear(x)[mask].view(2, -1).sum()),
    ("is not supported for what a mask chooses", lambda m, x, mask, c: m.linear(x)[mask].median()),
    ("asks for the len", lambda m, x, mask, c: m.linear(x)[mask].sum() / len(x[mask])),
    (
        "batch_norm depends on how many elements",
        lambda m, x, mask, c: functional.batch_norm(m.linear(x)[mask], None, None),
    ),
    ("depends on how many elements", lambda m, x, mask, c: m.linear(x)[mask].sum() if x[mask].shape[0] else x.sum()),
)


@pytest.mark.parametrize(("fact", "use"), REFUSED)
def test_what_needs_a_row_of_its_own_is_refused(context: Any, fact: str, use: Use) -> None:
    with pytest.raises(ImportFailure, match=fact) as caught:
        InterpretedStep(context, Choosing(use), itself, batch())
    assert "test_chosen_refused.py" in caught.value.place and caught.value.hint


def test_what_a_mask_chooses_is_no_output() -> None:
    model = Choosing(lambda m, x, mask, classes: m.linear(x)[mask])
    with pytest.raises(ImportFailure, match="shape of an output depends on data") as caught:
        capture(model, lambda y, _: (y.sum(), y), batch(), None)
    assert caught.value.hint
