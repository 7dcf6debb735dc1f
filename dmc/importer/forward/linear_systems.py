"""Inverses, factors and solutions, which eager checks by value: where it raises, as for a singular matrix, these give
infinities or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten


@rule(aten.linalg_inv.default, aten.inverse.default)
def _inverse(random: Randomness, a: Tensor) -> Tensor:
    return aten.linalg_inv_ex.default(a)[0]


@rule(aten.linalg_solve.default)
def _solve(random: Randomness, a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    return aten.linalg_solve_ex.default(a, b, left=left)[0]


@rule(aten.linalg_tensorinv.default)
def _tensor_inverse(random: Randomness, a: Tensor, ind: int = 2) -> Tensor:
    rows = math.prod(a.shape[:ind])
    return aten.linalg_inv_ex.default(a.reshape(rows, -1))[0].reshape(*a.shape[ind:], *a.shape[:ind])


@rule(aten.linalg_tensorsolve.default)
def _tensor_solve(random: Randomness, a: Tensor, b: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    a = a.movedim(list(dims), list(range(a.dim() - len(dims), a.dim()))) if dims else a
    solved = aten.linalg_solve_ex.default(a.reshape(b.numel(), -1), b.flatten())[0]
    return solved.reshape(a.shape[b.dim() :])


@rule(aten.linalg_cholesky.default)
def _cholesky(random: Randomness, a: Tensor, *, upper: bool = False) -> Tensor:
    return aten.linalg_cholesky_ex.default(a, upper=upper)[0]


@rule(aten.linalg_lu_factor.default)
def _lu_factor(random: Randomness, a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    return aten.linalg_lu_factor_ex.default(a, pivot=pivot)[:2]
