"""Factorisations of small matrices, and what is solved by them: one column after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.versions import until

aten = torch.ops.aten
# Columns of a matrix that is factorised: each is some operations of the step.
MOST = 64
# Of the exponential, enough in f32 where the norm is at most one half; beyond half of 2 to the other it is NaN.
# Gradients have large norms: PyTorch computes them by the exponential of [[a, g], [0, a]], g as large as it comes.
_TERMS, _HALVINGS = 9, 32


def _columns(x: Tensor, count: int) -> range:
    if count > MOST:
        raise ImportFailure(None, f"factorises a matrix of {count} columns", hint=f"use at most {MOST}")
    return range(count)


def _cholesky(a: Tensor, upper: bool = False) -> Tensor:
    return _cholesky_ex(a, upper=upper)[0]


def _cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """The factor, NaN from the column on that has no root, whose number is the second result."""
    rest, row = a.mT if upper else a, _numbers(a.shape[-1]).unsqueeze(1)
    columns: list[Tensor] = []
    failed = torch.zeros(a.shape[:-2], dtype=torch.int32)
    for k in _columns(a, a.shape[-1]):
        pivot = rest[..., k : k + 1, k : k + 1]
        column = torch.where(row >= k, rest[..., k : k + 1] / pivot.sqrt(), 0.0)
        rest = rest - column * column.mT
        columns.append(column)
        failed = torch.where((failed == 0) & ~(pivot[..., 0, 0] > 0.0), k + 1, failed).to(torch.int32)
    factor = torch.cat(columns, -1) if columns else a
    return factor.mT if upper else factor, failed


def _cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    first, last = (factor.mT, factor) if upper else (factor, factor.mT)
    return _solve_triangular(last, _solve_triangular(first, b, upper=False), upper=True)


def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return _cholesky_solve(_identity(factor), factor, upper)


def _solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A X = B, or with X A = B."""
    if not left:
        return _solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    shape = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rest = b.expand([*shape, *b.shape[-2:]])
    rows: list[Tensor] = []
    numbers = _columns(a, a.shape[-1])
    for k in reversed(numbers) if upper else numbers:
        row = rest[..., k : k + 1, :]
        row = row if unitriangular else row / a[..., k : k + 1, k : k + 1]
        # Rows that are done are not read again.
        rest = rest - a[..., k : k + 1] * row
        rows.append(row)
    return torch.cat(rows[::-1] if upper else rows, -2) if rows else rest


def _triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    matrix, is_upper = (a.mT, not upper) if transpose else (a, upper)
    shape = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    solved = _solve_triangular(matrix, b, upper=is_upper, unitriangular=unitriangular)
    return solved, a.expand([*shape, *a.shape[-2:]]).clone()


def _lu_factor(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors in one matrix, the rows swapped, counted from one, and the first column without a pivot."""
    row, column = _numbers(a.shape[-2]).unsqueeze(1), _numbers(a.shape[-1])
    swapped: list[Tensor] = []
    failed = torch.zeros(a.shape[:-2], dtype=torch.int32)
    for k in _columns(a, min(a.shape[-2:])):
        place = torch.full(a.shape[:-2], k)
        if pivot:
            place = torch.where(row[:, 0] >= k, a[..., k].abs(), -1.0).argmax(-1)
            a = _swapped(a, k, place.unsqueeze(-1).unsqueeze(-1), row)
        swapped.append(place + 1)
        top = a[..., k : k + 1, k : k + 1]
        failed = torch.where((failed == 0) & (top[..., 0, 0] == 0.0), k + 1, failed).to(torch.int32)
        factor = torch.where(top == 0.0, a[..., k : k + 1], a[..., k : k + 1] / top)
        below = torch.where(column > k, a - factor * a[..., k : k + 1, :], torch.where(column == k, factor, a))
        a = torch.where(row > k, below, a)
    pivots = torch.stack(swapped, -1) if swapped else torch.zeros([*a.shape[:-2], 0])
    return a, pivots.to(torch.int32), failed


def _swapped(a: Tensor, k: int, place: Tensor, row: Tensor) -> Tensor:
    """`a` with rows `k` and `place` swapped."""
    there = torch.where(row == place, a, torch.zeros([], dtype=a.dtype)).sum(-2, keepdim=True)
    return torch.where(row == k, there, torch.where(row == place, a[..., k : k + 1, :], a))


def _lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U; a matrix that is not wanted is empty."""
    none, count = lu.new_zeros([0]), min(lu.shape[-2:])
    lower, upper = none, none
    if unpack_data:
        lower = lu[..., :count].tril(-1) + torch.eye(lu.shape[-2], count, dtype=lu.dtype)
        upper = lu[..., :count, :].triu()
    return (_permutation(lu, pivots).mT if unpack_pivots else none), lower, upper


def _permutation(lu: Tensor, pivots: Tensor) -> Tensor:
    """The rows of the identity in the order of those of the factors."""
    row = _numbers(lu.shape[-2]).unsqueeze(1)
    rows = torch.eye(lu.shape[-2], dtype=lu.dtype).expand([*lu.shape[:-2], -1, -1])
    for k in range(pivots.shape[-1]):
        rows = _swapped(rows, k, pivots[..., k, None, None].to(torch.int64) - 1, row)
    return rows


def _lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots, _ = _lu_factor(a, pivot=pivot)
    order, lower, upper = _lu_unpack(factors, pivots, unpack_pivots=pivot)
    return order, lower, upper


def _lu_solve(lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    if not left:
        return _lu_solve(lu, pivots, b.mT, adjoint=not adjoint).mT
    rows = _permutation(lu, pivots)
    if adjoint:
        between = _solve_triangular(lu.mT, b, upper=False)
        return rows.mT @ _solve_triangular(lu.mT, between, upper=True, unitriangular=True)
    between = _solve_triangular(lu, rows @ b, upper=False, unitriangular=True)
    return _solve_triangular(lu, between, upper=True)


def _determinant(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots, _ = _lu_factor(_factorised(a))
    return _parity(pivots, a) * lu.diagonal(0, -2, -1).prod(-1), lu, pivots


def _log_determinant(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, pivots, _ = _lu_factor(_factorised(a))
    diagonal = lu.diagonal(0, -2, -1)
    return _parity(pivots, a) * diagonal.sign().prod(-1), diagonal.abs().log().sum(-1), lu, pivots


def _solve(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, pivots, failed = _lu_factor(a)
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    columns = b.unsqueeze(-1) if is_vector else b
    solved = _lu_solve(lu, pivots, columns, left=left)
    return solved.squeeze(-1) if is_vector else solved, lu, pivots, failed


def _inverse(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    lu, pivots, failed = _lu_factor(a)
    return _lu_solve(lu, pivots, _identity(a).expand(a.shape)), failed


def _factorised(a: Tensor) -> Tensor:
    """For determinants PyTorch factorises the transposed matrix if `a` lies row by row: their gradients expect that."""
    return a.mT if a.is_contiguous() else a


def _parity(pivots: Tensor, a: Tensor) -> Tensor:
    """-1 where an odd number of rows was swapped."""
    odd = (pivots != _numbers(pivots.shape[-1]) + 1).to(torch.int64).sum(-1) % 2
    return (1 - 2 * odd).to(a.dtype)


def _qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """By Householder's reflections."""
    rows, row = a.shape[-2], _numbers(a.shape[-2]).unsqueeze(1)
    q = torch.eye(rows, dtype=a.dtype).expand([*a.shape[:-2], rows, rows])
    for k in _columns(a, min(a.shape[-2:])):
        below = torch.where(row >= k, a[..., k : k + 1], 0.0)
        largest = below.abs().amax(-2, keepdim=True)
        # The axis has no length of its own: so squares are neither infinite nor all zero.
        below = below / torch.where(largest > 0.0, largest, 1.0)
        top = below[..., k : k + 1, :]
        length = below.square().sum(-2, keepdim=True).sqrt()
        axis = below + torch.where(row == k, torch.where(top < 0.0, -length, length), 0.0)
        # A column that is zero below the diagonal is left alone.
        flat = torch.where(row > k, below, 0.0).abs().amax(-2, keepdim=True) == 0.0
        scale = torch.where(flat, 0.0, 2.0 / torch.where(flat, 1.0, axis.square().sum(-2, keepdim=True)))
        a = a - scale * axis * (axis * a).sum(-2, keepdim=True)
        q = q - scale * (q * axis.mT).sum(-1, keepdim=True) * axis.mT
    count = rows if mode == "complete" else min(a.shape[-2:])
    return (a.new_zeros([0]) if mode == "r" else q[..., :count]), a[..., :count, :].triu()


def _householder_product(a: Tensor, scales: Tensor) -> Tensor:
    """The first columns of the product of reflections, whose axes are below the diagonal of `a`."""
    return _reflections(a, scales)[..., : a.shape[-1]]


def _ormqr(a: Tensor, scales: Tensor, x: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    q = _reflections(a, scales)
    q = q.mT if transpose else q
    return q @ x if left else x @ q


def _reflections(a: Tensor, scales: Tensor) -> Tensor:
    rows, row = a.shape[-2], _numbers(a.shape[-2]).unsqueeze(1)
    q = torch.eye(rows, dtype=a.dtype).expand([*a.shape[:-2], rows, rows])
    for k in _columns(a, scales.shape[-1]):
        axis = torch.where(row > k, a[..., k : k + 1], (row == k).to(a.dtype))
        q = q - scales[..., k, None, None] * (q * axis.mT).sum(-1, keepdim=True) * axis.mT
    return q


def _matrix_exp(a: Tensor) -> Tensor:
    """Of the matrix halved until its norm is small, by Taylor's series; then squared as often (Higham, 2005).

    While it is near the identity, only what it differs by is kept, which would be lost beside a one.
    """
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True) if a.numel() else a.new_zeros([1, 1])
    halved = [norm > 0.5 * 2.0**count for count in range(_HALVINGS)]
    scale = torch.ones_like(norm)
    for each in halved:
        scale = torch.where(each, 0.5 * scale, scale)
    scaled = a * scale
    more = scaled * (1.0 / _TERMS)
    for number in range(_TERMS - 1, 0, -1):
        more = (scaled + scaled @ more) * (1.0 / number)
    result, is_near = _identity(a) + more, torch.ones_like(norm, dtype=torch.bool)
    for each in reversed(halved):
        # Near zero, what `more` differs from -1 by counts.
        lowest = more.diagonal(dim1=-2, dim2=-1).amin(-1) if a.numel() else more.new_zeros([])
        is_near = is_near & (lowest[..., None, None] > -0.5)
        of = torch.where(is_near, more, result)
        squared = of @ of
        more = torch.where(each, 2.0 * more + squared, more)
        result = torch.where(each, torch.where(is_near, _identity(a) + more, squared), result)
    return torch.where(norm > 0.5 * 2.0**_HALVINGS, torch.nan, result)


def _unchecked(info: Tensor, name: str, *, is_matrix: bool) -> None:
    """Eager raises for a matrix that is singular; here what is made of it is not finite."""


def _identity(a: Tensor) -> Tensor:
    return torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def _numbers(count: int) -> Tensor:
    return torch.arange(count)


OWN: dict[Any, Callable[..., Any]] = {
    **until((2, 14), {"cholesky.default": _cholesky}),
    aten.cholesky_inverse.default: _cholesky_inverse,
    aten.cholesky_solve.default: _cholesky_solve,
    aten._cholesky_solve_helper.default: _cholesky_solve,
    aten.linalg_cholesky_ex.default: _cholesky_ex,
    aten.linalg_solve_triangular.default: _solve_triangular,
    aten.triangular_solve.default: _triangular_solve,
    aten.linalg_lu_factor_ex.default: _lu_factor,
    aten.linalg_lu.default: _lu,
    aten.linalg_lu_solve.default: _lu_solve,
    aten.lu_unpack.default: _lu_unpack,
    aten._linalg_check_errors.default: _unchecked,
    aten._linalg_det.default: _determinant,
    aten._linalg_slogdet.default: _log_determinant,
    aten._linalg_solve_ex.default: _solve,
    aten.linalg_inv_ex.default: _inverse,
    aten.linalg_qr.default: _qr,
    aten.linalg_householder_product.default: _householder_product,
    aten.ormqr.default: _ormqr,
    aten.linalg_matrix_exp.default: _matrix_exp,
}
