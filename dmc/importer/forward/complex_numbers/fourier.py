"""Discrete Fourier transforms: products with the matrix of all angles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.errors import ImportFailure
from dmc.importer.forward.complex_numbers.pairs import Complex, pair

# A matrix of more rows is refused: a transform would take far longer than in eager.
_MOST_ROWS = 8192
Operand = Complex | Tensor
Norm = str | None


def _waves(rows: int, columns: int, period: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of 2π · row · column / period."""
    if max(rows, columns) > _MOST_ROWS:
        fact = f"transforms {max(rows, columns)} elements at once"
        raise ImportFailure(None, fact, hint=f"at most {_MOST_ROWS} are supported; transform shorter parts")
    turns = torch.arange(rows).unsqueeze(1) * torch.arange(columns) % period
    angles = turns.to(torch.float32) * (2.0 * math.pi / period)
    # Zeros are exact, so that nothing depends on the imaginary parts that a real result has not.
    is_real, is_imaginary = 2 * turns % period == 0, (4 * turns % period == 0) & (2 * turns % period != 0)
    return torch.where(is_imaginary, 0.0, angles.cos()), torch.where(is_real, 0.0, angles.sin())


def _sized(x: Tensor, size: int) -> Tensor:
    """The last dimension cut, or filled with zeros, to `size`."""
    return functional.pad(x[..., :size], [0, max(0, size - x.shape[-1])])


def _scale(size: int, is_inverse: bool, norm: Norm) -> float:
    whole = {"backward": is_inverse, "forward": not is_inverse}
    return size**-0.5 if norm == "ortho" else 1.0 / size if whole[norm or "backward"] else 1.0


def _transformed(x: Operand, size: int | None, dim: int, norm: Norm, is_inverse: bool, half: bool = False) -> Complex:
    """All frequencies, or the half of them that those of a real operand have."""
    z = pair(x)
    re, im = z.re.movedim(dim, -1), z.im.movedim(dim, -1)
    size = size or re.shape[-1]
    re, im = _sized(re, size), _sized(im, size)
    cosine, sine = _waves(size, size // 2 + 1 if half else size, size)
    sine = sine if is_inverse else -sine
    scale = _scale(size, is_inverse, norm)
    new_re, new_im = (re @ cosine, re @ sine) if half else (re @ cosine - im @ sine, re @ sine + im @ cosine)
    return Complex((new_re * scale).movedim(-1, dim), (new_im * scale).movedim(-1, dim))


def _real_of_half(x: Operand, size: int | None = None, dim: int = -1, norm: Norm = None) -> Tensor:
    """The real tensor that has these frequencies, those not given being conjugates."""
    z = pair(x)
    re, im = z.re.movedim(dim, -1), z.im.movedim(dim, -1)
    size = size or 2 * (re.shape[-1] - 1)
    count = size // 2 + 1
    cosine, sine = _waves(count, size, size)
    at = torch.arange(count)
    # All but the first, and a last one that stands for itself, count twice.
    often = torch.where((at == 0) | (2 * at == size), 1.0, 2.0).unsqueeze(1)
    result = _sized(re, count) @ (cosine * often) - _sized(im, count) @ (sine * often)
    return (result * _scale(size, True, norm)).movedim(-1, dim)


def _along(
    is_inverse: bool, x: Operand, size: int | None = None, dim: int = -1, norm: Norm = None, half: bool = False
) -> Complex:
    return _transformed(x, size, dim, norm, is_inverse, half)


def _places(x: Operand, sizes: Sequence[int] | None, dims: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """The dimensions of a transform of several, and their sizes."""
    rank = pair(x).re.dim()
    if dims is None:
        dims = range(-len(sizes), 0) if sizes is not None else range(-rank, 0)
    return list(zip(dims, [None] * len(dims) if sizes is None else sizes, strict=True))


def _all(is_inverse: bool, x: Operand, sizes: Any = None, dims: Any = None, norm: Norm = None) -> Complex:
    for dim, size in _places(x, sizes, dims):
        x = _transformed(x, _given(size), dim, norm, is_inverse)
    return pair(x)


def _all_of_real(x: Tensor, sizes: Any = None, dims: Any = None, norm: Norm = None) -> Complex:
    *others, (dim, size) = _places(x, sizes, dims)
    result = _transformed(x, _given(size), dim, norm, False, half=True)
    for place, length in others:
        result = _transformed(result, _given(length), place, norm, False)
    return result


def _real_of_all(x: Operand, sizes: Any = None, dims: Any = None, norm: Norm = None) -> Tensor:
    *others, (dim, size) = _places(x, sizes, dims)
    for place, length in others:
        x = _transformed(x, _given(length), place, norm, True)
    return _real_of_half(x, _given(size), dim, norm)


def _given(size: int | None) -> int | None:
    """PyTorch takes -1 for the size as it is."""
    return None if size == -1 else size


def _of_two(
    function: Callable[..., Any], x: Operand, sizes: Any = None, dims: Any = (-2, -1), norm: Norm = None
) -> Any:
    return function(x, sizes, dims, norm)


_SEVERAL: dict[str, Callable[..., Any]] = {
    "fft": partial(_all, False),
    "ifft": partial(_all, True),
    "rfft": _all_of_real,
    "irfft": _real_of_all,
}
RULES: dict[str, Callable[..., Any]] = {
    "fft_fft": partial(_along, False),
    "fft_ifft": partial(_along, True),
    "fft_rfft": partial(_along, False, half=True),
    "fft_irfft": _real_of_half,
    **{f"fft_{name}n": function for name, function in _SEVERAL.items()},
    **{f"fft_{name}2": partial(_of_two, function) for name, function in _SEVERAL.items()},
}
