"""Operations to which what a mask chooses are elements or rows, one by one: the same, of whole tensors."""

from __future__ import annotations

from typing import Any

import torch

from dmc.importer.forward.chosen.along import ALONG
from dmc.importer.forward.chosen.calls import AGREE, DIFFERENT, Call, check_aligned, rule
from dmc.importer.forward.chosen.values import ALONG_CHOSEN, Chosen, refused
from dmc.importer.forward.patterns import whole_rms_norm

# Those that only move elements.
_MOVES = (
    *("clone", "contiguous", "detach", "alias", "lift_fresh_copy", "expand", "expand_as", "broadcast_to", "unsqueeze"),
    *("permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "numpy_T", "mT", "squeeze"),
    *("positive", "to", "_to_copy", "type_as"),
)
# Of which PyTorch does not say that they compute each element by itself, or that compute whole rows.
_BY_ROWS = (
    *("dropout", "native_dropout", "zeros_like", "ones_like", "full_like", "empty_like", "stack"),
    *("one_hot", "broadcast_tensors", "prelu", "gelu", "relu6", "selu", "celu", "silu", "mish", "log_sigmoid"),
    *("where", "fill_", "zero_", "copy_"),
)
# By name the argument that says along which dimensions it computes.
_DIMS = {
    **dict.fromkeys(
        ("softmax", "log_softmax", "logcumsumexp", "cumsum", "cumprod", "select", "slice", "narrow"), "dim"
    ),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "topk", "sort"), "dim"),
    **dict.fromkeys(("argsort", "glu", "cosine_similarity", "unsafe_split", "unsafe_chunk"), "dim"),
    **dict.fromkeys(("flip", "roll"), "dims"),
}
# By name how many of its last dimensions are one thing to it.
_LAST = {
    "pairwise_distance": 1,
    **dict.fromkeys(("conv1d", "max_pool1d", "avg_pool1d", "adaptive_avg_pool1d", "scaled_dot_product_attention"), 2),
    **dict.fromkeys(("conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "upsample_nearest2d"), 3),
}


def is_elementwise(target: Any) -> bool:
    """Whether an operation computes each element by itself."""
    return torch.Tag.pointwise in getattr(target, "tags", ())


@rule(*_BY_ROWS)
def by_elements(call: Call) -> Any:
    """What an operation of elements or rows gives; what one gives that writes is what it writes into."""
    if not call.name.endswith("_"):
        return call.kept()
    first = call.args[0]
    if not isinstance(first, Chosen):
        raise refused("writes what a mask chooses into another tensor", "x[mask] = y[mask]")
    if first.is_raw:
        raise refused("writes into a view of what a mask chooses", "compute a new tensor: y = x[mask] * 2.0")
    check_aligned(call.chosen)
    call.made(call.applied())
    return first


@rule(*_MOVES)
def _moved(call: Call) -> Any:
    return call.kept(raw=True)


@rule("index_select")
def _index_select(call: Call) -> Any:
    x, dim = call.given["self"], call.given["dim"]
    if isinstance(x, Chosen) and x.extents[call.dim(dim)] is not None:
        raise refused(ALONG_CHOSEN)
    return call.kept()


@rule("embedding")
def _embedding(call: Call) -> Any:
    if isinstance(call.given["weight"], Chosen):
        raise refused(ALONG_CHOSEN)
    return call.kept()


@rule("gather")
def _gather(call: Call) -> Any:
    """Of rows beside each other; else rows of `index` would be beside the first of `self`."""
    dim, operands = call.dim(call.given["dim"]), (call.given["self"], call.given["index"])
    of_self, of_index = (each.extents if isinstance(each, Chosen) else (None,) * each.dim() for each in operands)
    if any(each[dim] is not None for each in (of_self, of_index)):
        raise refused(ALONG_CHOSEN)
    if of_self != of_index:
        raise refused(DIFFERENT, AGREE)
    return call.kept()


@rule("layer_norm", "rms_norm")
def _normalised(call: Call) -> Any:
    return _with_plain_end(call, len(call.given["normalized_shape"]))


@rule(whole_rms_norm.__name__)
def _whole_rms_norm(call: Call) -> Any:
    x, *rest = call.args
    if not isinstance(x, Chosen) or x.extents[-1] is not None:
        raise refused(ALONG_CHOSEN)
    return call.made(call.run(call.target, [x.filled, *rest], {}))


@rule(*_LAST)
def _of_last(call: Call) -> Any:
    return _with_plain_end(call, _LAST[call.name])


@rule(*_DIMS)
def _of_dims(call: Call) -> Any:
    if not call.chosen:
        return call.kept()
    value = call.given[_DIMS[call.name]]
    dims = call.dims(0 if value is None else value)
    if not any(dim < len(each.extents) and each.extents[dim] is not None for each in call.chosen for dim in dims):
        return call.kept()
    if call.name not in ALONG:
        raise refused(ALONG_CHOSEN)
    return ALONG[call.name](call)


def _with_plain_end(call: Call, count: int) -> Any:
    if any(extent is not None for each in call.chosen for extent in each.extents[-count:]):
        raise refused(ALONG_CHOSEN)
    return call.kept()
