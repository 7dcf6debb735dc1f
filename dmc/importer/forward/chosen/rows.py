"""Operations to which what a mask chooses are elements or rows, one by one: the same, of whole tensors."""

from __future__ import annotations

from typing import Any

import torch

from dmc.importer.forward.chosen.along import FILLS, topk
from dmc.importer.forward.chosen.calls import Call, Rule, plain, rule
from dmc.importer.forward.chosen.parts import Parts, apart, from_last, rank_of
from dmc.importer.forward.chosen.values import Chosen, refused
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
    *("one_hot", "broadcast_tensors", "gelu", "relu6", "selu", "celu", "silu", "mish", "log_sigmoid"),
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
    **dict.fromkeys(("max_pool1d", "avg_pool1d", "adaptive_avg_pool1d", "scaled_dot_product_attention"), 2),
    **dict.fromkeys(("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "upsample_nearest2d"), 3),
}
_CONVOLUTIONS = {"conv1d": 2, "conv2d": 3}


def is_elementwise(target: Any) -> bool:
    """Whether an operation computes each element by itself."""
    return torch.Tag.pointwise in getattr(target, "tags", ())


def by_elements(call: Call) -> Parts:
    """Operands that broadcast."""
    return from_last(call.operands)


def in_place(call: Call) -> Any:
    """What an operation of elements gives; what one gives that writes is what it writes into."""
    if not call.name.endswith("_"):
        return plain(call)
    first = call.args[0]
    if not isinstance(first, Chosen):
        raise refused("writes what a mask chooses into another tensor", "x[mask] = y[mask]")
    if first.is_raw:
        raise refused("writes into a view of what a mask chooses", "compute a new tensor: y = x[mask] * 2.0")
    call.made(call.applied())
    return first


# Of operations for which there is no other.
ELEMENTWISE = Rule(by_elements, in_place)
rule(*_BY_ROWS, takes=by_elements)(in_place)


def _moved(call: Call) -> Parts:
    return from_last(call.operands, unread=("other",), moves=True)


rule(*_MOVES, takes=_moved)(plain)


def _rows_of_x(call: Call) -> Parts:
    """Of prelu: a weight is of the second dimension, or one for all."""
    rank = rank_of(call.operands["self"])
    weight = (1,) if rank > 1 else ("one",)
    return Parts({"self": range(rank), "weight": weight}, range(rank))


rule("prelu", takes=_rows_of_x)(plain)


def _selected(call: Call) -> Parts:
    rank, dim = rank_of(call.operands["self"]), call.dim(call.given["dim"])
    kept = {*range(rank)} - {dim} | {"index"}
    return Parts({"self": range(rank), "index": ["index"] * rank_of(call.operands["index"])}, kept)


rule("index_select", takes=_selected)(plain)


def _embedded(call: Call) -> Parts:
    labels = apart(call.operands, ("weight", "indices"))
    return Parts(labels, labels["indices"])


rule("embedding", takes=_embedded)(plain)


def _gathered(call: Call) -> Parts:
    """Of rows beside each other; else rows of `index` would be beside the first of `self`."""
    rows = range(rank_of(call.operands["self"]))
    return Parts(dict.fromkeys(("self", "index"), rows), {*rows} - {call.dim(call.given["dim"])}, broadcasts=False)


rule("gather", takes=_gathered)(plain)


def _normalised(call: Call) -> Parts:
    return from_last(call.operands, _last(len(call.given["normalized_shape"])))


rule("layer_norm", "rms_norm", takes=_normalised)(plain)
rule(whole_rms_norm.__name__, takes=lambda call: from_last(call.operands, _last(1)))(plain)


def _of_last(call: Call) -> Parts:
    return from_last(call.operands, _last(_LAST[call.name]))


rule(*_LAST, takes=_of_last)(plain)


def _convolved(call: Call) -> Parts:
    name = next(iter(call.operands))
    own = apart(call.operands, ("weight", "bias"))
    parts = from_last({name: call.operands[name]}, _last(_CONVOLUTIONS[call.name]))
    return Parts({**parts.labels, **own}, parts.kept)


rule(*_CONVOLUTIONS, takes=_convolved)(plain)


def _of_dims(call: Call) -> Parts:
    """Along its own dimensions each has what it fills; others refuse what is chosen along these."""
    if not call.operands:
        return Parts({})
    rank = max(map(rank_of, call.operands.values()))
    value = call.given[_DIMS[call.name]]
    # Of a flip or a roll of no dimension in particular all are.
    dims = [0] if value is None else range(rank) if value == [] else [value] if isinstance(value, int) else value
    own = {(each + rank if each < 0 else each) - rank for each in dims}
    parts = from_last(call.operands, own)
    if call.name not in FILLS:
        return parts
    fill, is_kept = FILLS[call.name]
    return Parts(parts.labels, {*parts.kept, *(own if is_kept else ())}, dict.fromkeys(own, fill(call)))


rule(*_DIMS, takes=_of_dims)(plain)
rule("topk", takes=_of_dims)(topk)


def _last(count: int) -> range:
    return range(-count, 0)
