"""Reductions: sums, means, variances, norms, and sums of products of three."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from dmc.importer.decompositions.functions import NARROW

aten = torch.ops.aten
# Elements beyond 2 to this, or below 2 to minus this, are scaled by 2 to minus or plus more before they are squared.
_FAR, _MORE = 60, 68
# From so many elements on, sums in f64 take longer than reading.
_LARGE = 1 << 22
# Of the places of large columns, a sample has one in so many in each dimension.
_STEP = 8


def _sum(x: Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Narrow types are summed in f32, as in PyTorch; torch-mlir would accumulate in the type itself."""
    if x.dtype not in NARROW:
        return NotImplemented
    return x.float().sum(dim or None, keepdim).to(dtype or x.dtype)


def _mean(x: Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    if x.dtype not in NARROW:
        return NotImplemented
    return x.float().mean(dim or None, keepdim).to(dtype or x.dtype)


def _vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if x.dtype not in NARROW or dtype is not None:
        return NotImplemented
    return torch.linalg.vector_norm(x.float(), ord, dim, keepdim).to(x.dtype)


def _norm(x: Tensor, p: float | None, dim: list[int], keepdim: bool = False) -> Tensor:
    return torch.linalg.vector_norm(x, 2 if p is None else p, dim, keepdim)


def _along(reduction: Callable[..., Tensor]) -> Callable[..., Any]:
    """`reduction` along dimensions of a scalar, on which torch-mlir crashes or hangs."""

    def decomposed(x: Tensor, dim: int | list[int] = 0, *options: Any, **named: Any) -> Any:
        if x.dim():
            return NotImplemented
        return reduction(x.reshape(1), 0 if isinstance(dim, int) else [0], *options, **named).reshape([])

    return decomposed


def _variance(
    x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    """With no more elements than the correction, PyTorch divides by zero, never by a negative number."""
    if not x.dim():
        return aten.var.correction(x.reshape(1), [0], correction=correction).reshape([])
    count = prod(x.shape[each] for each in dim or range(x.dim()))
    if (1 if correction is None else correction) <= count:
        return NotImplemented
    return aten.var.correction(x, dim, correction=count, keepdim=keepdim)


def _variance_and_mean(x: Tensor, dim: list[int] | None = None, *, keepdim: bool = False, **correction: Any) -> Any:
    dims = [each % max(x.dim(), 1) for each in dim or ()]
    if x.dtype is not torch.float32 or not x.numel():
        return aten.var.correction(x, dim, keepdim=keepdim, **correction), aten.mean.dim(x, dim, keepdim)
    if 0 not in dims or len(dims) >= x.dim():
        mean = aten.mean.dim(x.double(), dim, keepdim).to(x.dtype)
        return aten.var.correction(x, dim, keepdim=keepdim, **correction), mean
    given = correction.get("correction")
    is_large = x.numel() >= _LARGE and len(dims) > 1
    variance, mean = (_of_large_columns if is_large else _of_columns)(x, dims, 1 if given is None else given)
    return (variance, mean) if keepdim else (variance.squeeze(dims), mean.squeeze(dims))


def _of_columns(x: Tensor, dims: list[int], correction: float) -> tuple[Tensor, Tensor]:
    """Variance and mean of columns, which are read once: of their differences from one element each, in f64.

    Chan, Golub and LeVeque, "Algorithms for computing the sample variance" (1983), section 3. The element is one of the
    column's n, so that cancellation loses a factor of n at most of the 29 bits that f64 has more than f32.
    """
    first = x
    for each in dims:
        first = first.narrow(each, 0, 1)
    origin = _finite(first).double()
    shifted = x.double() - origin
    total, squares = (each.sum(dims, keepdim=True) for each in (shifted, shifted * shifted))
    return _moments(x, dims, origin, total, squares, correction)


def _of_large_columns(x: Tensor, dims: list[int], correction: float) -> tuple[Tensor, Tensor]:
    """The same, summed over the batch in f32 first, of differences from the mean of a sample of the places.

    Cancellation loses a factor of `_STEP` ** places' dimensions at most, where all that stands out is in the sample.
    """
    places = [each for each in dims if each]
    sample = x
    for each in places:
        sample = aten.slice.Tensor(sample, each, 0, x.shape[each], _STEP)
    origin = _finite(sample.mean(dims, keepdim=True))
    shifted = x - origin
    total, squares = (each.sum(0, keepdim=True) for each in (shifted, shifted * shifted))
    total, squares = (each.double().sum(places, keepdim=True) for each in (total, squares))
    return _moments(x, dims, origin.double(), total, squares, correction)


def _finite(origin: Tensor) -> Tensor:
    """Where differences are taken from; no infinity, whose difference from itself is not a number."""
    return torch.where(origin.isfinite(), origin, 0.0)


def _moments(
    x: Tensor, dims: list[int], origin: Tensor, total: Tensor, squares: Tensor, correction: float
) -> tuple[Tensor, Tensor]:
    """Variance and mean, each rounded once, by the sums of differences from an origin and of their squares."""
    count = prod(x.shape[each] for each in dims)
    return _spread(x, dims, total, squares, correction), (origin + total / count).to(x.dtype)


def _spread(x: Tensor, dims: list[int], total: Tensor, squares: Tensor, correction: float) -> Tensor:
    """The variance, by the sums of differences and of their squares."""
    count = prod(x.shape[each] for each in dims)
    spread = (squares - total * total / count).clamp_min(0.0)
    return (spread / max(count - correction, 0.0)).to(x.dtype)


def _deviation(x: Tensor, dim: list[int] | None = None, **options: Any) -> Tensor:
    """The square root of a variance that neither overflows nor vanishes: eager's squares are f64.

    Very large and very small rows are scaled by a power of two, which changes no digit.
    """
    if x.dtype in NARROW:
        return _deviation(x.float(), dim, **options).to(x.dtype)
    if not x.numel():
        return aten.var.correction(x, dim, **options).sqrt()
    largest = x.abs().amax(dim or [*range(x.dim())], keepdim=True)
    is_small = (largest < 2.0**-_FAR) & (largest > 0)
    scale = torch.where(largest > 2.0**_FAR, 2.0**-_MORE, torch.where(is_small, 2.0**_MORE, 1.0))
    deviation = aten.var.correction(x * scale, dim, **options).sqrt()
    return deviation / scale.reshape(deviation.shape)


def _deviation_and_mean(x: Tensor, dim: list[int] | None = None, *, keepdim: bool = False, **correction: Any) -> Any:
    return aten.std.correction(x, dim, keepdim=keepdim, **correction), aten.mean.dim(x, dim, keepdim)


def _addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _added(matrix @ vector, x, beta, alpha)


def _addbmm(x: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Products of a batch, summed: one product along both dimensions."""
    return _added(left.movedim(0, 1).flatten(1) @ right.flatten(0, 1), x, beta, alpha)


def _added(product: Tensor, x: Tensor, beta: float, alpha: float) -> Tensor:
    """Times zero, `x` does not count, even where it is not finite."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (x if beta == 1 else x * beta)


def _trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    lacks_a: list[int],
    lacks_b: list[int],
    lacks_c: list[int],
    summed: list[int],
    unrolled: int = 1,
) -> Tensor:
    """The sum of a · b · c along dimensions `summed`; each operand lacks some of the dimensions of the product.

    Dimensions missing in `c` are summed over a · b first: the order of factors decides between infinity and NaN.
    """
    wide = torch.float32 if a.dtype in NARROW else a.dtype
    lacking = ((a, lacks_a), (b, lacks_b), (c, lacks_c))
    left, right, last = (_with_dims(each, dims).to(wide) for each, dims in lacking)
    early = [dim for dim in summed if dim in lacks_c and dim != unrolled]
    both = left * right
    both = (both.sum(early, keepdim=True) if early else both).to(a.dtype).to(wide)
    # The remaining dimensions; those already summed have size 1.
    return (both * last).sum(summed).to(a.dtype)


def _with_dims(x: Tensor, dims: list[int]) -> Tensor:
    for dim in sorted(dims):
        x = x.unsqueeze(dim)
    return x


_ALONG = (
    aten._softmax.default, aten.amax.default, aten.amin.default, aten.prod.dim_int, aten.any.dim, aten.all.dim,
)  # fmt: skip
OWN: dict[Any, Callable[..., Any]] = {
    **{reduction: _along(reduction) for reduction in _ALONG},
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.norm.ScalarOpt_dim: _norm,
    aten.var.correction: _variance,
    aten.var_mean.correction: _variance_and_mean,
    aten.std.correction: _deviation,
    aten.std_mean.correction: _deviation_and_mean,
    aten.addbmm.default: _addbmm,
    aten.addmv.default: _addmv,
    aten._trilinear.default: _trilinear,
}
