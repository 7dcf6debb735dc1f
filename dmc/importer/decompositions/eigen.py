"""Eigenvalues and singular values of small matrices, by Jacobi's rotations.

A round rotates half of the columns with the other half, each with one; the rounds of a tournament bring every column
together with every other (Brent and Luk, 1985). The number of rounds is fixed, so no value decides what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.errors import ImportFailure
from dmc.importer.decompositions.matrices import OWN as FACTORISATIONS
from dmc.importer.decompositions.selection import ranks

aten = torch.ops.aten
_qr = FACTORISATIONS[aten.linalg_qr.default]
# Columns: each is a round of some operations, in each sweep.
MOST = 16
# Enough for the precision of f32: the last ones converge quadratically.
_SWEEPS = 7


def _eigh(a: Tensor, uplo: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """Eigenvalues in rising order, and eigenvectors, of the symmetric matrix that has one triangle of `a`."""
    size = a.shape[-1]
    rest = a.triu() + a.triu(1).mT if uplo.upper() == "U" else a.tril() + a.tril(-1).mT
    rest = functional.pad(rest, [0, size % 2, 0, size % 2])
    vectors = torch.eye(rest.shape[-1], dtype=a.dtype).expand(rest.shape)
    half, seats = rest.shape[-1] // 2, _Seats(rest.shape[-1])
    for _ in _rounds(size):
        values = rest.diagonal(0, -2, -1)
        both = rest[..., :half, half:].diagonal(0, -2, -1)
        rotation = seats.rotation(values[..., :half], values[..., half:], both)
        rest, vectors = rotation.mT @ rest @ rotation, vectors @ rotation
    values = rest.diagonal(0, -2, -1)[..., :size]
    order = _order(values, descending=False)
    return (values.unsqueeze(-2) @ order).squeeze(-2), vectors[..., :size, :size] @ order


def _svd(
    a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, the singular values in falling order, and Vᵀ."""
    if a.shape[-2] < a.shape[-1]:
        u, values, v = _svd(a.mT, full_matrices, compute_uv)
        return v.mT, values, u.mT
    largest = a.abs().amax((-2, -1), keepdim=True) if a.numel() else a.new_ones([*a.shape[:-2], 1, 1])
    # So that squares are finite, and not all zero.
    scale = torch.where(largest > 0.0, largest, 1.0)
    columns, v = _orthogonal_columns(a / scale)
    # Where columns are zero, this finds others that are orthogonal to the rest.
    u, r = _qr(columns, "complete" if full_matrices else "reduced")
    along = r.diagonal(0, -2, -1)
    sign = torch.where(along < 0.0, -1.0, torch.ones_like(along))
    sign = functional.pad(sign, [0, u.shape[-1] - sign.shape[-1]], value=1.0)
    return u * sign.unsqueeze(-2), along.abs() * scale.squeeze(-1), v.mT


def _orthogonal_columns(a: Tensor) -> tuple[Tensor, Tensor]:
    """A V and V, with orthogonal V, so that the columns of A V are orthogonal, the longest first (Hestenes, 1958)."""
    size = a.shape[-1]
    columns = functional.pad(a, [0, size % 2])
    width = columns.shape[-1]
    v = torch.eye(width, dtype=a.dtype).expand([*a.shape[:-2], width, width])
    half, seats = width // 2, _Seats(width)
    for _ in _rounds(size):
        left, right = columns[..., :half], columns[..., half:]
        rotation = seats.rotation(left.square().sum(-2), right.square().sum(-2), (left * right).sum(-2))
        columns, v = columns @ rotation, v @ rotation
    columns, v = columns[..., :size], v[..., :size, :size]
    order = _order(columns.square().sum(-2), descending=True)
    return columns @ order, v @ order


def _rounds(size: int) -> range:
    if size > MOST:
        fact = f"finds eigenvalues or singular values of a matrix of {size} columns"
        raise ImportFailure(None, fact, hint=f"use at most {MOST}, or compute them outside the step")
    return range(_SWEEPS * (size + size % 2 - 1))


class _Seats:
    """Where the columns sit after a round: the first stays, the others move on in a circle."""

    def __init__(self, count: int) -> None:
        half, number = count // 2, torch.arange(count)
        moved = torch.cat([number[:1], number[half : half + 1], number[1 : half - 1], number[half + 1 :]])
        before = torch.cat([moved, number[half - 1 : half]]) if half > 1 else number
        self.moves = (number.unsqueeze(1) == before).float()
        self.swapped = torch.cat([self.moves[half:], self.moves[:half]])

    def rotation(self, first: Tensor, second: Tensor, both: Tensor) -> Tensor:
        """That makes each product `both` of two columns zero, given their squares, and moves them on."""
        slope = (second - first) / (2.0 * both)
        tangent = torch.where(slope < 0.0, -1.0, 1.0) / (slope.abs() + torch.sqrt(1.0 + slope * slope))
        tangent = torch.where(both == 0.0, 0.0, tangent)
        cosine = torch.rsqrt(1.0 + tangent * tangent)
        sine = tangent * cosine
        cosines, sines = torch.cat([cosine, cosine], -1), torch.cat([sine, -sine], -1)
        return cosines.unsqueeze(-1) * self.moves + sines.unsqueeze(-1) * self.swapped


def _order(values: Tensor, descending: bool) -> Tensor:
    """The matrix that sorts columns by their values."""
    place = torch.arange(values.shape[-1])
    return (ranks(values, descending).unsqueeze(-1) == place).to(values.dtype)


def _pinv(a: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False) -> Tensor:
    if not a.numel():
        return a.mT.clone()
    precision = max(a.shape[-2:]) * torch.finfo(a.dtype).eps
    relative = rtol if rtol is not None else torch.full([], precision if atol is None else 0.0)
    if hermitian:
        values, u = _eigh(a)
        v = u.mT
    else:
        u, values, v = _svd(a)
    size = values.abs()
    least = relative.unsqueeze(-1) * size.amax(-1, keepdim=True)
    least = least if atol is None else torch.maximum(atol.unsqueeze(-1), least)
    inverse = torch.where(size > least, 1.0 / values, 0.0)
    return (v.mT * inverse.unsqueeze(-2)) @ u.mT


OWN: dict[Any, Callable[..., Any]] = {
    aten._linalg_eigh.default: _eigh,
    aten._linalg_svd.default: _svd,
    aten.linalg_pinv.atol_rtol_tensor: _pinv,
}
