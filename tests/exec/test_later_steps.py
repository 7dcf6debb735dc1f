"""Verification of the steps behind the first: other batches of the example's rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from dmc.observer import RecordingObserver
from dmc.verification.batch import reordered

WIDTH = 6


def test_rows_are_put_in_another_order_where_that_is_another_batch() -> None:
    x, y = torch.arange(12.0).view(4, 3), torch.tensor([5, 6, 7, 8])
    turned = torch.arange(12.0).view(3, 4).t()
    shared, other = torch.zeros(1).expand(4), torch.arange(3)
    example = {"x": x, "inner": (y, turned, shared), "other": other, "scale": torch.tensor(2.0), "flag": True}
    found = reordered(example, 1)
    assert found["x"].tolist() == x[[3, 0, 1, 2]].tolist()
    new, same, still = found["inner"]
    assert new.tolist() == [8, 5, 6, 7] and still is shared
    assert same.tolist() == turned[[3, 0, 1, 2]].tolist() and same.stride() == turned.stride()
    assert found["other"] is other and found["scale"] is example["scale"] and found["flag"] is True
    assert y.tolist() == [5, 6, 7, 8]


class Bags(nn.Module):
    """Sums of rows of a table, from each of `offsets` to the next: these are in order."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(10, WIDTH, mode="sum")

    def forward(self, offsets: Tensor, rows: Tensor) -> Tensor:
        """i64[3], i64[5] → f32[3, WIDTH]"""
        return self.bag(rows, offsets)


def test_a_batch_whose_rows_have_an_order_is_compared_in_one_step() -> None:
    torch.manual_seed(0)
    observer = RecordingObserver()
    example = (torch.tensor([0, 2, 4]), torch.tensor([1, 2, 3, 4, 5]), torch.randn(3, WIDTH))
    optimizer, loss = dmc.optim.SGD(lr=0.1), nn.functional.mse_loss
    dmc.compile(Bags(), loss=loss, optimizer=optimizer, example=example, verify=True, observer=observer).close()
    (note,) = observer.notes
    assert note.startswith("verified for one step only: on its rows in another order, module 'bag' (")
    assert "raises RuntimeError: offsets[0] has to be 0" in note
