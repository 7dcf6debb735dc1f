"""Complex numbers between real parameters and a real loss."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dmc
from tests.interpreted import assert_trains_as_eager

LENGTH, WIDTH = 6, 8


class Rotary(nn.Module):
    """Rotary embeddings as Llama has them, and arithmetic of what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.rows = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.randn(2, 4, 3))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            angles = torch.arange(LENGTH)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001])
            turns = torch.polar(torch.ones_like(angles), angles) * 0.5
        y = torch.view_as_complex(self.linear(x).float().reshape(*x.shape[:-1], -1, 2))
        turned = torch.view_as_real(y * turns[None]).flatten(-2)
        rows = torch.complex(self.rows[0], self.rows[1])
        # A number that is zero has no slope.
        nothing = torch.complex(self.linear.bias * 0.0, self.linear.bias * 0.0)
        parts = [
            (turns @ rows).imag,
            (y.transpose(0, 1) @ rows.conj()).abs().sum(0),
            (rows / (rows.square() + (2.0 - 1.0j))).real,
            (1.0 - rows - self.rows[0] + 2.0 * rows.exp() / self.rows[1].abs()).angle(),
            torch.cat([y[0], turns[1:3]]).sum(0, keepdim=True).real[:, :3],
            torch.where(self.rows[0] > 0, rows, 1.0j * rows.to(torch.complex64)).imag,
            torch.stack([nothing.abs(), nothing.angle(), nothing.real])[:, :3],
        ]
        return torch.cat([turned.flatten(), *(each.flatten() for each in parts)])


class Spectra(nn.Module):
    """Fourier transforms of one dimension and of several, of other sizes, and back, of even and odd lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.randn(3, 5, 6))

    def forward(self, factor: Tensor) -> Tensor:
        x, fft = self.x * factor, torch.fft
        half = fft.rfft(x, dim=1, norm="ortho")
        spectra = [
            fft.fft(x),
            fft.ifft(torch.complex(x, x.flip(0)), n=8, norm="forward"),
            fft.fftn(x, dim=(1, 2)),
            fft.ifft2(fft.fft2(x, s=(4, 7))),
            fft.rfft2(x),
            fft.rfftn(x, s=(4, -1), dim=(2, 1)),
        ]
        real = [
            fft.irfft(half, n=5, dim=1, norm="ortho"),
            fft.irfft(half * half, dim=1),
            fft.irfft(half, n=9),
            fft.irfft2(fft.rfft2(x), s=(5, 6)),
            fft.irfftn(half, dim=(0, 2)),
        ]
        return torch.cat([torch.view_as_real(each).flatten() for each in spectra] + [each.flatten() for each in real])


class Parts(nn.Module):
    """Signed sizes, parts of other shapes that are written afterwards, large divisors, and rows at computed places."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes, self.phase = nn.Parameter(torch.tensor([2.0, -2.0, 0.5])), nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        real = x.clone()
        with torch.no_grad():
            fixed = torch.complex(real, x[0])
            real.mul_(2.0)
        z = torch.complex(x, self.phase)
        large = z * 1e20
        table = torch.polar(torch.ones(5), torch.arange(5) * 0.3)
        parts = [
            torch.polar(self.sizes, self.phase).real,
            (z.sum(0) * fixed.sum(0)).imag,
            (large / (large + 1.0)).abs()[0],
            (self.phase * 1.0j / (1.0 + 2.0j) + 1.0j).imag,
            (table[places - 1] * z[0]).imag,
        ]
        return torch.cat([real.flatten(), *parts])


def _weighted(result: Tensor, target: Tensor) -> Tensor:
    return (result * torch.cos(torch.arange(result.numel()) * 0.7)).sum() + result.square().mean() * target


@pytest.mark.parametrize("kind", [Rotary, Spectra])
def test_complex_numbers_inside_a_model(kind: type[nn.Module], context: Any) -> None:
    torch.manual_seed(0)
    first = torch.randn(2, LENGTH, WIDTH) if kind is Rotary else torch.rand(6)
    assert_trains_as_eager(context, kind(), _weighted, [(first, torch.tensor(0.5))] * 2)


def test_parts_of_complex_numbers(context: Any) -> None:
    torch.manual_seed(0)
    # A negative place counts from the end.
    batches = [(torch.randn(2, 3), torch.tensor(places), torch.tensor(0.5)) for places in ([0, 3, 5], [1, 2, 0])]
    step = assert_trains_as_eager(context, Parts(), _weighted, batches)
    assert math.isnan(step(torch.randn(2, 3), torch.tensor([0, 7, 1]), torch.tensor(0.5)))


@pytest.mark.parametrize("region", [nullcontext, torch.no_grad])
def test_memory_of_complex_numbers_is_not_written(region: Any) -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            z = torch.fft.rfft(self.linear(x)).detach()
            parts = torch.view_as_real(z)
            with region():
                parts[..., 1] *= 0.5
            return z.abs() * self.linear(x).sum()

    example = torch.randn(2, 3), torch.zeros(2, 3)
    with pytest.raises(dmc.errors.DmcError, match="writes into the memory of a complex tensor") as caught:
        dmc.compile(Written(), loss=nn.functional.mse_loss, optimizer=dmc.optim.SGD(lr=0.1), example=example)
    assert caught.value.hint


def test_in_mixed_precision_complex_numbers_stay_wide() -> None:
    torch.manual_seed(0)
    example = torch.randn(2, LENGTH, WIDTH), torch.tensor(0.5)
    sgd = dmc.optim.SGD(lr=1e-3)
    dmc.compile(Rotary(), loss=_weighted, optimizer=sgd, example=example, precision="bf16-mixed", verify=True).close()


def test_outputs_are_real() -> None:
    example = torch.randn(2, 3), torch.zeros(())
    with pytest.raises(dmc.errors.DmcError, match="an output is complex") as caught:
        dmc.compile(
            nn.Linear(3, 2),
            loss=lambda y, target: (y.sum(), torch.view_as_complex(y)),
            optimizer=dmc.optim.SGD(lr=0.1),
            example=example,
        )
    assert caught.value.hint


class Spectral(nn.Module):
    """Frequencies, of which the imaginary parts of the first and the last have no meaning for a real result."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(WIDTH // 2 + 1, 2))

    def forward(self, x: Tensor) -> Tensor:
        """[B, WIDTH] → [B, WIDTH]."""
        return torch.fft.irfft(torch.fft.rfft(x) * torch.view_as_complex(self.filter), n=WIDTH)


def test_what_a_real_result_ignores_has_no_gradient(context: Any) -> None:
    torch.manual_seed(0)
    model, batches = Spectral(), [(torch.randn(3, WIDTH), torch.randn(3, WIDTH)) for _ in range(2)]
    step = assert_trains_as_eager(context, model, nn.functional.mse_loss, batches)
    ignored = step.model_state()["filter"][[0, -1], 1]
    assert ignored.equal(model.filter.detach()[[0, -1], 1])
