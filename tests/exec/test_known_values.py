"""What a model finds out of tensors that depend on neither state nor batch, it finds out at compile time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from tests.interpreted import assert_trains_as_eager

WIDTH = 4


class Masks(nn.Module):
    """Looks at masks that it makes: conditions, numbers, and writes into them and through views of them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        mask = functional.pad(torch.ones(x.shape[:2]), (0, 2))
        if (mask > 1).any().item():
            x = x * 3.0
        mask[:, 0] = 5.0
        mask[mask == 5.0] = torch.tensor(7.0)
        largest, place = mask.max(1)
        if torch.equal(largest, torch.full_like(largest, 7.0)) and not bool(place.any()):
            x = x + 1.0
        # What is unknown does not spoil what lies elsewhere in memory.
        torch.zeros_like(mask)[:, :WIDTH].copy_(x.detach())
        factors = [float(each) for each in mask.sum(0).tolist()]
        return self.linear(x) * int(mask.sum()) + factors[0]


class Reading(nn.Module):
    """Reads in a region of autocast what was computed outside, and outside what was computed inside."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        own = torch.full((3, 3), 1.001)
        wide = own @ own
        with torch.autocast("cpu", torch.bfloat16):
            narrow = own @ own
            with torch.autocast("cpu", enabled=False):
                inner = own @ own
            first = wide.sum().item()
        return self.linear(x) * first + narrow.float().sum().item() * 3.0 + inner.sum().item()


class Unknown(nn.Module):
    """Writes what it was given into a tensor of its own, through a view."""

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros(2, x.shape[0], WIDTH)
        mask[1].copy_(x.detach())
        return x * 2.0 if mask.flatten().any() else x


def test_numbers_of_known_tensors(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(3, WIDTH), torch.randn(3, WIDTH)) for _ in range(2)]
    assert_trains_as_eager(context, Masks(), functional.mse_loss, batches)


def test_numbers_have_the_types_of_where_they_were_computed(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(3, WIDTH), torch.randn(3, WIDTH))]
    assert_trains_as_eager(context, Reading(), functional.mse_loss, batches)


def test_numbers_of_a_tensor_that_the_batch_was_written_into() -> None:
    example = torch.randn(3, WIDTH), torch.randn(3, WIDTH)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Unknown())
    with pytest.raises(dmc.errors.DmcError, match="decides by the numbers of a tensor") as caught:
        dmc.compile(model, loss=functional.mse_loss, optimizer=dmc.optim.SGD(lr=0.1), example=example)
    assert caught.value.hint


class Mapped(nn.Module):
    """`torch.vmap` over the batch, and twice over places, as masks are made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        def is_shown(row: Tensor, column: Tensor) -> Tensor:
            return row.new_ones((), dtype=torch.bool) & (row >= column)

        rows, columns = torch.arange(x.shape[0]), torch.arange(WIDTH)
        shown = torch.vmap(torch.vmap(is_shown, (None, 0)), (0, None))(rows, columns)
        return torch.vmap(lambda row: (row * row).sum(0, keepdim=True) * row)(self.linear(x)) * shown


def test_functions_are_mapped(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(3, WIDTH), torch.randn(3, WIDTH))]
    assert_trains_as_eager(context, Mapped(), functional.mse_loss, batches)


class Asserting(nn.Module):
    """Asserts what holds of some batches, before it writes what it looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        longest = lengths.clone()
        # As `assert`, which pytest rewrites.
        check: Any = vars(torch)["_check"]
        check(longest.max().item() <= WIDTH)
        check(longest.min().item() >= 0)
        longest += 100
        return self.linear(x) * longest[:, None]


def test_what_is_asserted_holds_or_the_loss_is_nan(context: Any) -> None:
    torch.manual_seed(0)
    x, target = torch.randn(3, WIDTH), torch.randn(3, WIDTH)
    batches = [(x, torch.tensor(lengths), target) for lengths in ([4, 1, 2], [0, 4, 3])]
    step = assert_trains_as_eager(context, Asserting(), functional.mse_loss, batches)
    assert math.isnan(step(x, torch.tensor([1, 5, 2]), target))
    assert all(value.isnan().all() for value in step.model_state().values())


def test_numbers_that_are_asserted_are_those_of_python(context: Any) -> None:
    class Narrow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
            check: Any = vars(torch)["_check"]
            check(sizes.max().item() * sizes.min().item() <= 200)
            ok = (x < 100.0).all()
            assert_async: Any = vars(torch)["_assert_async"]
            assert_async(ok)
            ok.fill_(True)
            return self.linear(x)

    torch.manual_seed(0)
    x, target = torch.randn(3, WIDTH), torch.randn(3, WIDTH)
    step = assert_trains_as_eager(context, Narrow(), functional.mse_loss, [(x, torch.tensor([9, 20]).byte(), target)])
    assert math.isnan(step(x, torch.tensor([16, 16]).byte(), target))


def test_an_assertion_that_export_loses_is_refused() -> None:
    class Lost(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            check: Any = vars(torch)["_check"]
            check(x.mean().item() <= 0.1)
            return self.linear(x)

    example = torch.zeros(3, WIDTH), torch.zeros(3, WIDTH)
    with pytest.raises(dmc.errors.DmcError, match="which export loses") as caught:
        dmc.compile(Lost(), loss=functional.mse_loss, optimizer=dmc.optim.SGD(lr=0.1), example=example)
    assert caught.value.hint


class Unprepared(nn.Module):
    """Does not run where it is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        mask: Any = None if torch.compiler.is_compiling() else torch.ones(x.shape)
        return self.linear(x) * mask[:, :1]


def test_a_model_that_runs_only_as_in_eager(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(3, WIDTH), torch.randn(3, WIDTH))]
    assert_trains_as_eager(context, Unprepared(), functional.mse_loss, batches)
