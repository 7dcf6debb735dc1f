"""Factorisations, and what is solved by them, beside LAPACK's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, linalg, nn

from dmc.errors import ImportFailure
from dmc.importer.decompositions import matrices
from dmc.importer.forward.precision import Precision
from tests.decomposed import assert_same, by_rule
from tests.interpreted import assert_trains_as_eager

torch.manual_seed(0)
A, B = torch.randn(2, 4, 4) + 2.0 * torch.eye(4), torch.randn(2, 4, 3)
# As far as rounding goes in a few columns.
RTOL = 1e-3
FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "cholesky": lambda a, b: linalg.cholesky_ex(a @ a.mT + torch.eye(4)).L,
    "exponential": lambda a, b: linalg.matrix_exp(a * torch.tensor([0.1, 2.0]).view(2, 1, 1)),
    "cholesky_upper": lambda a, b: linalg.cholesky_ex(a @ a.mT + torch.eye(4), upper=True).L,
    "cholesky_of_a_triangle": lambda a, b: linalg.cholesky_ex((a @ a.mT + torch.eye(4)).triu(), upper=True).L,
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a.tril()),
    "triangular": lambda a, b: linalg.solve_triangular(a.triu(), b, upper=True),
    "triangular_right": lambda a, b: linalg.solve_triangular(a.tril(), b.mT, upper=False, left=False),
    "triangular_ones": lambda a, b: linalg.solve_triangular(a.tril(), b, upper=False, unitriangular=True),
    "lu": lambda a, b: linalg.lu(a),
    "lu_wide": lambda a, b: linalg.lu(b.mT),
    "lu_tall": lambda a, b: linalg.lu_factor_ex(b)[:2],
    "lu_solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor_ex(a)[:2], b, adjoint=True),
    "determinant": lambda a, b: linalg.det(a),
    "determinant_transposed": lambda a, b: linalg.det(a.mT),
    "determinant_of_rows_swapped": lambda a, b: linalg.det(a[:, [1, 0, 2, 3]]),
    "log_determinant": lambda a, b: linalg.slogdet(a[:, [1, 0, 2, 3]]),
    "solve": lambda a, b: linalg.solve_ex(a, b).result,
    "solve_right": lambda a, b: linalg.solve_ex(a, b.mT, left=False).result,
    "solve_vector": lambda a, b: linalg.solve_ex(a, b[..., 0]).result,
    "inverse": lambda a, b: linalg.inv_ex(a).inverse,
    "qr": lambda a, b: linalg.qr(b),
    "qr_square": lambda a, b: linalg.qr(a),
    "reflections": lambda a, b: torch.ormqr(b, torch.full((2, 3), 0.5), a),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_in_lapack(name: str) -> None:
    assert_same(FUNCTIONS[name], FUNCTIONS[name], A, B, rtol=RTOL)


def test_tensors_as_matrices() -> None:
    torch.manual_seed(0)
    inverse, solve = torch.ops.aten.linalg_tensorinv.default, torch.ops.aten.linalg_tensorsolve.default
    a, b = torch.randn(6, 2, 3), torch.randn(6)
    assert_same(lambda x: by_rule(inverse, x, 1), lambda x: inverse(x, 1), a, rtol=RTOL)
    assert_same(lambda x, y: by_rule(solve, x, y), solve, a, b, rtol=RTOL)
    a = a.movedim(0, 1).contiguous()
    assert_same(lambda x, y: by_rule(solve, x, y, [0, 2]), lambda x, y: solve(x, y, [0, 2]), a, b, rtol=RTOL)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_reflections_of_any_size(scale: float) -> None:
    """Squares of tiny and large numbers are none."""
    q, r = matrices.OWN[torch.ops.aten.linalg_qr.default](B * scale)
    expected = linalg.qr(B)
    torch.testing.assert_close((q, r / scale), (expected.Q, expected.R), rtol=RTOL, atol=1e-5)


def test_exponentials_of_any_size() -> None:
    own = matrices.OWN[torch.ops.aten.linalg_matrix_exp.default]
    for each in (torch.zeros(2, 0, 0), torch.ones(8, 8)):
        torch.testing.assert_close(own(each), linalg.matrix_exp(each), rtol=1e-5, atol=0.0)
    assert own(torch.full([2, 2], -1e10)).isnan().all() and own(-1e4 * torch.eye(2)).eq(0.0).all()
    small = torch.tensor([-20.0, -40.0])
    torch.testing.assert_close(own(torch.diag(small)).diagonal(), small.exp(), rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_an_exponential_whose_gradient_is_large(size: float) -> None:
    """PyTorch computes it by the exponential of [[a, g], [0, a]]: beside a large g, a keeps its digits."""
    a, zero = 0.5 * A, torch.zeros_like(A)
    block = torch.cat([torch.cat([a, size * A.mT], -1), torch.cat([zero, a], -1)], -2)
    own = matrices.OWN[torch.ops.aten.linalg_matrix_exp.default](block)
    expected = linalg.matrix_exp(block.double()).float()
    for part, right in zip(own[:, :4].split(4, -1), expected[:, :4].split(4, -1), strict=True):
        torch.testing.assert_close(part, right, rtol=1e-5, atol=1e-6 * float(right.abs().max()))


def test_what_is_not_definite_is_told() -> None:
    own = matrices.OWN[torch.ops.aten.linalg_cholesky_ex.default]
    assert own(torch.diag(torch.tensor([1.0, -1.0, 1.0])))[1].item() == 2


def test_a_large_matrix_is_refused() -> None:
    own = matrices.OWN[torch.ops.aten.linalg_inv_ex.default]
    with pytest.raises(ImportFailure, match="factorises a matrix of 65 columns"):
        own(torch.eye(65))


class _Factorised(nn.Module):
    """Products in bf16, of which R is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.left = nn.Parameter(torch.ones(4, 4)), nn.Parameter(torch.randn(3, 4, 6))

    def forward(self, right: Tensor) -> Tensor:
        return linalg.qr(torch.addbmm(self.x, self.left, right, beta=0.5, alpha=2.0)).R


def test_narrow_products_are_factorised_in_f32(context: Any) -> None:
    torch.manual_seed(0)
    batch = (torch.randn(3, 6, 4), torch.tensor(0.0))
    assert_trains_as_eager(
        context, _Factorised(), lambda r, _: r.square().mean(), [batch], precision=Precision.BF16_MIXED
    )


class _Contracted(nn.Module):
    """What a product in bf16 gives, contracted with a parameter in f32."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.x = nn.Linear(6, 4), nn.Parameter(torch.randn(3, 4))

    def forward(self, rows: Tensor) -> Tensor:
        narrow = torch.einsum("ij,kj->ik", self.linear(rows), self.x)
        return narrow + torch.einsum("ij->i", self.x)


def test_einsum_multiplies_in_bf16(context: Any) -> None:
    torch.manual_seed(0)
    batch = (torch.randn(5, 6), torch.tensor(0.0))
    assert_trains_as_eager(
        context, _Contracted(), lambda r, _: r.float().square().mean(), [batch], precision=Precision.BF16_MIXED
    )
