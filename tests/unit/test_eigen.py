"""Eigenvalues and singular values, beside LAPACK's: what does not depend on a vector's sign."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, linalg

from dmc.errors import ImportFailure
from dmc.importer.decompositions import eigen
from tests.decomposed import assert_decomposes

RTOL = 1e-3
aten = torch.ops.aten
own_eigh, own_svd = eigen.OWN[aten._linalg_eigh.default], eigen.OWN[aten._linalg_svd.default]
own_pinv = eigen.OWN[aten.linalg_pinv.atol_rtol_tensor]


def _function_of_symmetric(a: Tensor) -> Tensor:
    values, vectors = linalg.eigh(a + a.mT)
    return (vectors * values.exp().unsqueeze(-2)) @ vectors.mT


def _product_of_parts(a: Tensor) -> Tensor:
    u, values, v = linalg.svd(a, full_matrices=False)
    return (u * values.sqrt().unsqueeze(-2)) @ v


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "eigenvalues": lambda a: linalg.eigvalsh(a + a.mT),
    "of-one-triangle": lambda a: linalg.eigvalsh(a, UPLO="u"),
    "eigenvectors": _function_of_symmetric,
    "singular-values": linalg.svdvals,
    "singular-vectors": _product_of_parts,
    "pseudoinverse": linalg.pinv,
    "pseudoinverse-of-symmetric": lambda a: linalg.pinv(a + a.mT, hermitian=True),
    "condition": linalg.cond,
    "nuclear-norm": lambda a: linalg.matrix_norm(a, "nuc"),
    "spectral-norm": lambda a: linalg.matrix_norm(a, 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_square_matrices(name: str) -> None:
    torch.manual_seed(1)
    assert_decomposes(FUNCTIONS[name], torch.randn(2, 5, 5) + 4.0 * torch.eye(5), rtol=RTOL)


@pytest.mark.parametrize("name", ["singular-values", "singular-vectors", "pseudoinverse"])
@pytest.mark.parametrize("shape", [(3, 5), (4, 2), (1, 3)])
def test_functions_of_other_matrices(name: str, shape: tuple[int, int]) -> None:
    torch.manual_seed(2)
    assert_decomposes(FUNCTIONS[name], torch.randn(*shape), rtol=RTOL)


@pytest.mark.parametrize("size", [0, 1, 2, 7, eigen.MOST])
def test_vectors_are_orthogonal(size: int) -> None:
    torch.manual_seed(size)
    a = torch.randn(2, size, size)
    values, vectors = own_eigh(a)
    torch.testing.assert_close(values, linalg.eigvalsh(a), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(size).expand(2, size, size), rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e25])
@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 4)])
def test_parts_of_any_rank_and_size(rows: int, columns: int, rank: int, scale: float) -> None:
    """Squares of tiny and large numbers are none; what belongs to singular values of zero is orthogonal, too."""
    torch.manual_seed(3)
    a = torch.randn(2, rows, rank) @ torch.randn(2, rank, columns)
    u, values, v = own_svd(a * scale, full_matrices=True)
    torch.testing.assert_close(values / scale, linalg.svdvals(a), rtol=1e-5, atol=1e-5)
    count = values.shape[-1]
    torch.testing.assert_close((u[..., :count] * (values / scale).unsqueeze(-2)) @ v[..., :count, :], a)
    for each in (u, v):
        torch.testing.assert_close(each @ each.mT, torch.eye(each.shape[-1]).expand(each.shape), rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [2, 16])
def test_equal_columns(size: int) -> None:
    """Half a right angle apart, or without anything left but roundings, whose squares vanish."""
    for a in (torch.ones(size, size), torch.ones(size, size) + torch.eye(size)):
        values, vectors = own_eigh(a)
        torch.testing.assert_close((vectors * values) @ vectors.mT, a, rtol=0, atol=1e-5)
        u, values, v = own_svd(a)
        torch.testing.assert_close((u * values) @ v, a, rtol=0, atol=1e-5)
        torch.testing.assert_close(u @ u.mT, torch.eye(size), rtol=0, atol=1e-5)


@pytest.mark.parametrize("hermitian", [False, True])
def test_pseudoinverses_leave_out_small_values(hermitian: bool) -> None:
    torch.manual_seed(4)
    vectors = linalg.qr(torch.randn(5, 5)).Q
    a = (vectors * torch.tensor([-3.0, 1.0, 0.1, 0.02, 0.0])) @ vectors.mT
    for atol, rtol in ((None, None), (None, 0.1), (0.2, None), (0.2, 0.1), (0.01, 0.1)):
        given = {name: None if x is None else torch.tensor(x) for name, x in (("atol", atol), ("rtol", rtol))}
        own = own_pinv(a, hermitian=hermitian, **given)
        torch.testing.assert_close(own, linalg.pinv(a, hermitian=hermitian, **given), rtol=RTOL, atol=1e-3)


def test_shapes_without_elements() -> None:
    for shape in ((0, 0), (2, 0), (2, 0, 3)):
        for full in (False, True):
            expected = linalg.svd(torch.zeros(shape), full_matrices=full)
            assert [each.shape for each in own_svd(torch.zeros(shape), full)] == [each.shape for each in expected]
        assert own_pinv(torch.zeros(shape)).shape == linalg.pinv(torch.zeros(shape)).shape


def test_a_large_matrix_is_refused() -> None:
    with pytest.raises(ImportFailure, match="singular values of a matrix of 17 columns") as caught:
        own_svd(torch.eye(17))
    assert "at most 16" in caught.value.hint
