"""What an exported graph may contain: tensors of fixed shape, real and dense, and no arithmetic on unsigned or narrow
integers."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer import advice, origin
from dmc.importer.decompositions.places import memory_order
from dmc.importer.forward.assertions import NUMBERS, is_asserted
from dmc.importer.forward.chosen.chosen import SELECTING
from dmc.importer.forward.chosen.values import is_sized_by_data
from dmc.importer.forward.complex_numbers.rules import is_supported
from dmc.importer.forward.random_numbers.randomness import undrawable
from dmc.importer.torch_internals import (
    draws_numbers,
    has_backward_hooks,
    has_hooks_after_accumulation,
    is_view,
    regions,
)

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
_NARROW = (torch.int8, torch.int16)
_NUMBERS = (torch.SymInt, torch.SymBool, torch.SymFloat)
# What a traced step does to integers of any width.
_COPIES = (
    torch.ops.prims.convert_element_type.default,
    torch.ops.aten._to_copy.default,
    torch.ops.aten.clone.default,
    torch.ops.aten.copy.default,
    torch.ops.aten.full.default,
)


def check_nodes(graph: fx.GraphModule, model: str) -> None:
    """Raises ImportFailure at the first operation of an exported graph whose result cannot be compiled.

    `model` is the name of the user's model in the exported module, which places omit.
    """
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        for region in regions(node):
            check_nodes(region, model)
        place = origin.of_exported_node(node, model)
        values = node.meta.get("val")
        values = values if isinstance(values, tuple | list) else [values]
        for value in [] if is_asserted(node) or is_of_masks(node) else values:
            if not (_is_complex(value) and (regions(node) or is_supported(node))):
                _check_value(value, str(place), origin.op_name(node.target))
        _check_unsigned(node, str(place))
        _check_layout(node, str(place))


def check_results(graph: fx.GraphModule) -> None:
    """Raises ImportFailure for a complex or sparse output, or one of which data decide the size."""
    for node in graph.graph.output_node().all_input_nodes:
        if _is_sized_by_data(node):
            fact = "the shape of an output depends on data: it has as many elements as a mask chooses"
            raise ImportFailure("the model or its loss", fact, hint="return whole tensors, and the mask beside them")
        check_tensors("an output", {"the model or its loss": node.meta["val"]})


def is_of_masks(node: fx.Node) -> bool:
    """Whether masks decide the sizes of a result: it is chosen by one, or computed of what is."""
    if _is_count(node) or regions(node):  # What a region does is looked at there.
        return True
    inputs = node.all_input_nodes
    is_given = node.target in SELECTING or any(_is_sized_by_data(each) or _is_count(each) for each in inputs)
    return is_given and _is_sized_by_data(node)


def _is_count(node: fx.Node) -> bool:
    """Whether a number says how many elements masks choose, or is computed of such."""
    if not isinstance(node.meta.get("val"), _NUMBERS) or node.target in NUMBERS:
        return False
    if node.op == "placeholder" or node.target is torch.ops.aten.sym_size.int:
        return True
    if node.target is operator.getitem and regions(source := node.all_input_nodes[0]):
        return _is_count(regions(source)[0].graph.output_node().args[0][node.args[1]])  # pyright: ignore
    return any(map(_is_count, node.all_input_nodes))


def _is_sized_by_data(node: fx.Node) -> bool:
    return any(map(is_sized_by_data, pytree.tree_leaves(node.meta.get("val"))))


def _check_value(value: Any, place: str, op: str) -> None:
    if isinstance(value, _NUMBERS):
        raise ImportFailure(place, *advice.taken(isinstance(value, torch.SymFloat)))
    if not isinstance(value, torch.Tensor):
        return
    if is_sized_by_data(value):
        raise ImportFailure(
            place,
            f"{op} returns a tensor whose shape depends on data or is dynamic",
            hint=advice.FIXED_SIZE,
        )
    check_tensors(op, {place: value})


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.complex64


def _check_unsigned(node: fx.Node, place: str) -> None:
    """Wide unsigned numbers may be taken for signed ones; a conversion of a negative one depends on the processor."""
    sources = pytree.tree_leaves([source.meta.get("val") for source in node.all_input_nodes])
    is_of_float = any(isinstance(each, torch.Tensor) and each.is_floating_point() for each in sources)
    has_wide = _has(node, _UNSIGNED) or any(_has(source, _UNSIGNED) for source in node.all_input_nodes)
    if has_wide or (is_of_float and _has(node, (torch.uint8,))):
        raise ImportFailure(
            place,
            f"{origin.op_name(node.target)} computes with unsigned integers",
            hint="convert to a signed type, as in x.int(); only uint8 tensors can be computed with",
        )


def _check_narrow(node: fx.Node, place: str) -> None:
    """A backend computes in a wider type, and may not wrap: -int8(-128), computed in int32, would be 128."""
    moves = is_view(node.target) or node.target is operator.getitem
    if not moves and _has(node, _NARROW):
        raise ImportFailure(
            place,
            f"{origin.op_name(node.target)} computes with integers of 8 or 16 bits",
            hint="convert its operands first, as in x.int(), and the result afterwards",
        )


def _viewed(node: fx.Node) -> fx.Node:
    """The tensor of which this one is a view, or itself."""
    while node.op == "call_function" and is_view(node.target) and node.target is not torch.ops.aten.contiguous.default:
        first = node.args[0]
        assert isinstance(first, fx.Node)
        node = first
    return node


def _reach(node: fx.Node) -> int:
    """How many elements of memory an `as_strided` looks at, from the first."""
    given: dict[str, Any] = dict(zip(("x", "size", "stride", "storage_offset"), node.args, strict=False)) | node.kwargs
    if 0 in given["size"]:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(given["size"], given["stride"], strict=True))
    return last + (given.get("storage_offset") or 0) + 1


def _check_layout(node: fx.Node, place: str) -> None:
    """`as_strided` reads raw memory: of views of a row-major tensor the order of dimensions is known, but no gaps.

    How other results lie in memory, an operation on a transposed tensor may decide otherwise than its fake tensor says.
    """
    if node.target not in (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_.default):
        return
    base: Any = node.args[0]
    tensor = base.meta["val"]
    is_known = _viewed(base).meta["val"].is_contiguous() and not tensor.storage_offset()
    if not is_known or _reach(node) > tensor.numel() or memory_order(tensor.shape, tensor.stride()) is None:
        raise ImportFailure(
            place,
            "as_strided reads a part of a tensor in memory, which a compiled step does not preserve",
            hint="call .contiguous() before it, or use slices and unfold",
        )


def _has(node: fx.Node, dtypes: tuple[torch.dtype, ...]) -> bool:
    values = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(value, torch.Tensor) and value.dtype in dtypes for value in values)


def check_tensors(what: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises ImportFailure for a complex or sparse tensor and for an empty input. `tensors` are by place; `what` names
    their kind.
    """
    for name, tensor in tensors.items():
        if tensor.is_complex():
            raise ImportFailure(name, f"{what} is complex", hint="use two real tensors (torch.view_as_real)")
        if tensor.layout != torch.strided:
            raise ImportFailure(name, f"{what} is sparse ({tensor.layout})", hint="use a dense tensor (to_dense())")
        if 0 in tensor.shape and what == "input":
            fact = f"{what} has no elements (shape {list(tensor.shape)})"
            raise ImportFailure(name, fact, hint="leave it out: every size must be at least 1")


def check_hooks(objective: nn.Module) -> None:
    """Raises ImportFailure for backward hooks on modules, and for hooks on accumulated gradients."""
    if has_backward_hooks(None):
        raise ImportFailure("torch.nn", "a backward hook on all modules is not supported", hint="remove it")
    for path, module in objective.named_modules():
        if has_backward_hooks(module):
            place = f"module '{path.partition('.')[2]}'" if "." in path else "the model or its loss"
            raise ImportFailure(
                place,
                "a backward hook on a module is not supported",
                hint="use x.register_hook(…) on a tensor in `forward`, or an autograd.Function",
            )
    for path, parameter in objective.named_parameters():
        if has_hooks_after_accumulation(parameter):
            raise ImportFailure(
                path.partition(".")[2],
                "a hook after gradient accumulation is not supported",
                hint="use register_hook to change the gradient, and the compiled optimizer for updates",
            )


def check_traced(graph: fx.GraphModule) -> None:
    """Raises ImportFailure where the traced step has results that cannot be compiled on its way back, draws random
    numbers other than dmc's own, or computes there with narrow integers, as the gradient of a power with its exponent.
    """
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        place = str(origin.of_node(node))
        for value in pytree.tree_leaves(node.meta.get("val")):
            _check_value(value, place, origin.op_name(node.target))
        if draws_numbers(node.target):
            raise undrawable(f"{place}: {origin.op_name(node.target)}")
        if node.target not in _COPIES:
            _check_narrow(node, place)
