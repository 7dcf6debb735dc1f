"""Eager's memory layout of results, so that views of them, and `contiguous()`, behave as there."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dmc.importer.torch_internals import storage_key


def as_in_eager(result: Any, recorded: Any) -> Any:
    """`result`, or copies of its tensors, laid out in memory like `recorded`, export's result of the same operation.

    A decomposition may return a transposed result, where eager does not, and PyTorch's attention returns [B, H, T, D]
    transposed in memory, so that a model may join the heads by a view. Tensors that overlap themselves, or have gaps,
    are unchanged.
    """
    if isinstance(result, Tensor) and isinstance(recorded, Tensor):
        return _laid_out(result, recorded)
    if isinstance(result, (tuple, list)) and isinstance(recorded, (tuple, list)) and len(result) == len(recorded):
        return type(result)(as_in_eager(mine, theirs) for mine, theirs in zip(result, recorded, strict=True))
    return result


def copied_in_eager(result: Any, operand: Any, recorded: Any, recorded_operand: Any) -> bool:
    """Whether an operation that may give a view of its operand, such as `reshape`, gave a copy when it was exported,
    because the operand lay in memory there as it does not here: what overlaps itself, or has gaps, is dense here.
    """
    every = (result, operand, recorded, recorded_operand)
    if not all(isinstance(each, Tensor) for each in every) or _strides(operand) == _strides(recorded_operand):
        return False
    return storage_key(recorded) != storage_key(recorded_operand)


def _laid_out(tensor: Tensor, recorded: Tensor) -> Tensor:
    if tensor.shape != recorded.shape or _strides(tensor) == _strides(recorded):
        return tensor
    outermost_first = sorted(range(tensor.dim()), key=lambda i: (-recorded.stride(i), -recorded.shape[i], i))
    back = sorted(range(tensor.dim()), key=outermost_first.__getitem__)
    moved = tensor.permute(outermost_first).contiguous().permute(back)
    return moved if _strides(moved) == _strides(recorded) else tensor


def _strides(tensor: Tensor) -> list[int]:
    """The strides of dimensions with several elements; the others do not matter."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
