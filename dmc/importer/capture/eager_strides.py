"""Strides as in eager, of the operations to whose results fake tensors give other ones.

Whether a view of a result, or `reshape`, shares its memory depends on its strides, and so does where a write goes.
PyTorch's rules for tensors without data compute these operations by others, in steps that lose the order of
dimensions in memory. `tests/unit/test_eager_strides.py` compares every operator of PyTorch's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm, suggest_memory_format
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch

aten = torch.ops.aten


@contextmanager
def eager_strides() -> Generator[None]:
    """Lets fake tensors have eager's strides on a CPU, for the operations in `RULES`; results are otherwise the same.

    Elementwise operations order dimensions as `reorder_dimensions` in PyTorch's aten/src/ATen/TensorIterator.cpp does.
    """
    dispatch = FakeTensorMode.dispatch

    def corrected(mode: FakeTensorMode, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        result = dispatch(mode, func, types, args, kwargs)
        rule = RULES.get(func)
        if rule is None:
            return result
        first, *rest = result if isinstance(result, tuple) else (result,)
        # One number has no strides, and may be of numbers alone. Shapes that data decide are refused elsewhere.
        if not isinstance(first, FakeTensor) or not first.dim():
            return result
        if any(isinstance(size, torch.SymInt) for size in first.shape):
            return result
        with mode, torch.no_grad():
            strides = rule(first, *args)
            if strides is not None and first.stride() != strides:
                first = torch.empty_strided(first.shape, strides, dtype=first.dtype, device=first.device)
        return (first, *rest) if isinstance(result, tuple) else first

    with mock.patch.object(FakeTensorMode, "dispatch", corrected):
        yield


def _dense(result: Tensor, *_: Any) -> tuple[int, ...]:
    return torch.empty(result.shape).stride()


def _elementwise(_: Tensor, *operands: Any) -> tuple[int, ...]:
    """By PyTorch's iterator over operands, as of a sum, whose rule is right but for operands of stride zero."""
    tensors = [each for each in pytree.tree_leaves(operands) if isinstance(each, Tensor)]
    return torch.add(*tensors).stride() if len(tensors) == 2 else torch.add(tensors[0], 1).stride()


def _ldexp(result: Tensor, x: Tensor, exponent: Tensor) -> tuple[int, ...]:
    # A product with a power of two, which is dense.
    return _elementwise(result, x, exponent.contiguous())


def _like_first(result: Tensor, x: Tensor, *_: Any) -> tuple[int, ...] | None:
    return torch.empty_like(x).stride() if x.shape == result.shape else None


def _in_format(result: Tensor, x: Tensor, *_: Any) -> tuple[int, ...]:
    """Dense, with channels last where the first operand has them last."""
    return torch.empty(result.shape).to(memory_format=suggest_memory_format(x)).stride()


def _angle(result: Tensor, x: Tensor) -> tuple[int, ...] | None:
    return _dense(result) if x.is_complex() else None


def _indexed(_: Tensor, x: Tensor, indices: Sequence[Tensor | None]) -> tuple[int, ...] | None:
    """By PyTorch's iterator over the places read and the indices, of which fake tensors see the former only."""
    if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return None
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    # What a dimension of size one has for a stride decides, too. Views of fake tensors give it another one.
    with no_dispatch():
        every = torch.broadcast_tensors(*(_without_data(index) for index in indices if index is not None))
        # Unless they are neighbours, indexed dimensions come first.
        first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
        rest = [dim for dim in range(x.dim()) if dim not in dims]
        before, after = rest[:first], rest[first:]
        shape = [*(x.shape[dim] for dim in before), *every[0].shape, *(x.shape[dim] for dim in after)]
        places = [*(x.stride(dim) for dim in before), *(0 for _ in every[0].shape), *(x.stride(dim) for dim in after)]
        turned = (index.reshape([1] * len(before) + list(index.shape) + [1] * len(after)) for index in every)
        operands = (torch.empty_strided(shape, places, device="meta"), *(index.expand(shape) for index in turned))
        order = compute_elementwise_output_logical_to_physical_perm(*operands)[0]
    back = sorted(range(len(order)), key=order.__getitem__)
    return torch.empty([shape[dim] for dim in order]).permute(back).stride()


def _without_data(x: Tensor) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), device="meta")


RULES: dict[Any, Callable[..., tuple[int, ...] | None]] = {
    **dict.fromkeys(
        (
            aten.grid_sampler_2d.default,
            aten.im2col.default,
            aten.isin.Tensor_Scalar,
            aten.isin.Tensor_Tensor,
            aten.log_sigmoid_forward.default,
            aten.nll_loss2d_forward.default,
            aten.normal.float_Tensor,
            aten.normal.Tensor_Tensor,
            aten.poisson.default,
            aten.pow.Scalar,
            aten.rrelu_with_noise.default,
        ),
        _dense,
    ),
    **dict.fromkeys(
        (
            aten.copysign.Tensor,
            aten.div.Tensor_mode,
            aten.heaviside.default,
            aten.logaddexp.default,
            aten.logaddexp2.default,
            aten.logical_and.default,
            aten.logical_or.default,
            aten.logical_xor.default,
            aten.native_dropout_backward.default,
            aten.special_xlog1py.default,
            aten.xlogy.Tensor,
        ),
        _elementwise,
    ),
    **dict.fromkeys(
        (
            aten._batch_norm_with_update.default,
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit.no_stats,
            aten.channel_shuffle.default,
            aten.native_batch_norm.default,
            aten.reflection_pad3d.default,
            aten.replication_pad3d.default,
        ),
        _in_format,
    ),
    aten.angle.default: _angle,
    aten.binary_cross_entropy.default: _like_first,
    aten.index.Tensor: _indexed,
    aten.ldexp.Tensor: _ldexp,
}
