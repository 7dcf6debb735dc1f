"""Constant tensors, which PyTorch itself folds here.

torch-mlir would fold as well, and wrongly: it reads negative numbers as unsigned, divides bits, and rounds remainders
toward zero. It divides by sizes in views, which may be zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.torch_internals import may_write

aten = torch.ops.aten
# The number that fills the result: an argument, or the same each time.
_FILLED: dict[Any, int | Callable[[fx.Node], Any]] = {
    aten.full.default: lambda node: node.args[1],
    aten.full_like.default: lambda node: node.args[1],
    aten.new_full.default: lambda node: node.args[2],
    aten.scalar_tensor.default: lambda node: node.args[0],
    **dict.fromkeys((aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default), 0),
    **dict.fromkeys((aten.ones.default, aten.ones_like.default, aten.new_ones.default), 1),
}
# Elements of the largest tensors that are computed here.
_MOST_ELEMENTS = 1 << 28


def fold(graph: fx.Graph) -> None:
    """Replaces what is computed from tensors of one number alone, and all tensors without elements, by `full`."""
    known: dict[fx.Node, Tensor] = {}
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, Tensor) or not _is_fixed(value):
            continue
        filled = _filled(node, value, known)
        if filled is not None:
            known[_replaced(node, filled)] = filled


def _is_fixed(value: Tensor) -> bool:
    """Whether a shape is known; a step with others is refused."""
    return not any(isinstance(size, torch.SymInt) for size in value.shape)


def _filled(node: fx.Node, value: Tensor, known: dict[fx.Node, Tensor]) -> Tensor | None:
    """The result of a node where it has one number everywhere, or nothing; else None."""
    if not value.numel():
        return torch.zeros(value.shape, dtype=value.dtype)
    number = _FILLED.get(node.target)
    if number is not None:
        number = number(node) if callable(number) else number
        return None if isinstance(number, fx.Node) else _spread(torch.full([], number, dtype=value.dtype), value)
    result = _computed(node, value, known)
    if result is None or result.dtype != value.dtype or not _is_filled(result):
        return None
    return _spread(result.flatten()[0], value)


def _spread(number: Tensor, like: Tensor) -> Tensor:
    return number.clone().expand(like.shape)


def _computed(node: fx.Node, value: Tensor, known: dict[fx.Node, Tensor]) -> Tensor | None:
    """What PyTorch makes of constants; None for anything else."""
    sources = node.all_input_nodes
    if not sources or any(each not in known for each in sources) or value.numel() > _MOST_ELEMENTS:
        return None
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace not in ("aten", "prims") or may_write(node):
        return None
    if torch.Tag.nondeterministic_seeded in target.tags:
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
    try:
        result = cast(Callable[..., Any], target)(*args, **kwargs)
    except (RuntimeError, NotImplementedError) as error:
        place = f"{origin.of_node(node)}: {origin.op_name(target)}"
        fact = f"PyTorch cannot compute this of constants: {str(error).splitlines()[0]}"
        raise ImportFailure(place, fact, hint="convert them first, as in x.float()") from error
    return result if isinstance(result, Tensor) else None


def _is_filled(tensor: Tensor) -> bool:
    """Whether all elements have the same bits, but for those of NaN."""
    first = tensor.flatten()[0]
    if not tensor.is_floating_point():
        return bool((tensor == first).all())
    same = (tensor == first) & (tensor.signbit() == first.signbit())
    return bool((same | (tensor.isnan() & first.isnan())).all())


def _replaced(node: fx.Node, filled: Tensor) -> fx.Node:
    number = filled.flatten()[0].item() if filled.numel() else 0
    with node.graph.inserting_before(node):
        if filled.dtype == torch.uint8:
            made = _bytes(node, list(filled.shape), int(number))
        else:
            made = node.graph.call_function(aten.full.default, (list(filled.shape), number), {"dtype": filled.dtype})
    made.meta.update(node.meta)
    node.replace_all_uses_with(made)
    node.graph.erase_node(node)
    return made


def _bytes(node: fx.Node, shape: list[int], number: int) -> fx.Node:
    """A range of one number: torch-mlir folds other constants, and makes signed ones of bytes."""
    call, value = node.graph.call_function, node.meta["val"]
    place = {name: each for name, each in node.meta.items() if name != "tensor_meta"}
    one = call(aten.arange.start_step, (number, number + 1), {"dtype": torch.int64})
    one.meta.update({**place, "val": value.new_empty([1], dtype=torch.int64)})
    cast = call(aten._to_copy.default, (one,), {"dtype": torch.uint8})
    cast.meta.update({**place, "val": value.new_empty([1])})
    return call(aten.expand.default, (cast, shape)) if shape else call(aten.view.default, (cast, shape))
