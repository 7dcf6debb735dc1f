"""Integers of 8 and 16 bits wrap as in eager, bit for bit, compiled; what depends on a processor is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.errors import DmcError
from tests.interpreted import InterpretedStep

# Every byte, beside others; bytes of zero only where nothing is divided by them.
BYTES = torch.arange(-128, 128).to(torch.int8)
OTHERS = torch.arange(256).mul(37).add(11).to(torch.int8)
SHIFTS = torch.arange(256).remainder(7).to(torch.int8)
DIVISORS = torch.where(OTHERS == 0, 3, OTHERS)


def _arithmetic(a: Tensor, b: Tensor) -> list[Tensor]:
    """In the type of the operands."""
    return [a + b, a - b, a * b, a & b, a | b, a ^ b, ~a, a.square(), a + 100, 100 - a, a * 3, a.clone().mul_(b)]


def _comparisons(a: Tensor, b: Tensor) -> list[Tensor]:
    folded = torch.where(a < b, a, b).view(16, 16)
    return [a.maximum(b), a < b, (a == b), a.clamp(3, 100), a.sort().values, a.float() / b, folded.amax(1), folded.T]


def _sums(a: Tensor, b: Tensor) -> list[Tensor]:
    rows = (a + b).view(16, 16)
    return [rows.sum(), rows.sum(0), rows.cumsum(1), rows.prod(1), torch.cat([a, b]), rows[3:5].flip(1), a[b.long()]]


class Bytes(nn.Module):
    """All of it, of signed and unsigned bytes and of 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, a: Tensor, b: Tensor, shift: Tensor, divisor: Tensor, u: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The results are auxiliary outputs."""
        v, short = u.flip(0), a.short() * 300
        made = [*_arithmetic(a, b), *_comparisons(a, b), *_sums(a, b), -a, a.abs(), a << shift, a >> shift]
        made += [a // divisor, a % divisor, torch.div(a, divisor, rounding_mode="trunc"), a**2, a**3]
        made += [*_arithmetic(u, v), *_comparisons(u, v), *_sums(u, v), (u + a).int(), u >> 3]
        made += [each.int() for each in (short, short * short, -short, short + u, short * a, short - a.int())]
        made += [torch.full_like(u, 200), torch.zeros_like(u) + v, torch.full((), 200, dtype=torch.uint8)]
        # The gradient of a power computes with its exponent.
        return ((self.scale ** shift[:6]) * u[:6].float()).sum(), made


EXAMPLE = (BYTES, OTHERS, SHIFTS, DIVISORS, BYTES.view(torch.uint8))


def test_every_byte() -> None:
    model = Bytes()
    loss, expected = model(*EXAMPLE)
    loss.backward()
    example = (*EXAMPLE, torch.zeros(()))
    sgd = dmc.optim.SGD(lr=1.0)
    step = dmc.compile(model, loss=lambda made, _: made, optimizer=sgd, example=example, verify=False)
    actual_loss, actual = step(*example)
    assert float(actual_loss) == pytest.approx(loss.item())
    tensors = [torch.tensor(np.asarray(each)) for each in actual]
    for number, (made, wanted) in enumerate(zip(tensors, expected, strict=True)):
        assert made.dtype == wanted.dtype, number
        assert torch.equal(made, wanted) if not wanted.is_floating_point() else torch.allclose(made, wanted), number
    after = step.state_dict()["model"]["scale"]
    assert model.scale.grad is not None
    torch.testing.assert_close(after, torch.tensor(2.0) - model.scale.grad)


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "number": (lambda u: u.float() + (u + 300).float(), "computes with 300 and torch.uint8, which cannot hold it"),
    "negative": (lambda u: (u > -1).float(), "computes with -1 and torch.uint8"),
    "mask": (lambda u: torch.arange(4.0)[u], "takes unsigned integers for a mask|must be long, int, byte or bool"),
    "from-float": (lambda u: (u.float() * -1.0).to(torch.uint8).float(), "computes with unsigned integers"),
    "wide": (lambda u: u.to(torch.uint32).float(), "computes with unsigned integers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_leaves_open_is_refused(name: str, context: Any) -> None:
    operation, fact = REFUSED[name]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, u: Tensor) -> Tensor:
            return self.weight * operation(u)

    with pytest.raises(DmcError, match=fact):
        InterpretedStep(context, Model(), nn.functional.mse_loss, (torch.ones(4, dtype=torch.uint8), torch.ones(4)))
