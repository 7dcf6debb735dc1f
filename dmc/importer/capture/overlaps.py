"""Writes into tensors whose elements share memory, as the rows of an expanded one, or views of such.

Functionalised, each element would be one of its own: what was written to one would be lost, or be added to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.forward.chosen.values import is_sized_by_data
from dmc.importer.torch_internals import may_write, regions, storage_key

aten = torch.ops.aten
_DROPOUTS = (
    aten.dropout.default,
    aten.feature_dropout.default,
    aten.alpha_dropout.default,
    aten.feature_alpha_dropout.default,
)


@dataclass(frozen=True)
class _Argument:
    """Of an argument of a region: the memory of such tensors in it, and whether its memory is that of complex ones."""

    shared: set[int]
    is_complex: bool


_NO_ARGUMENT = _Argument(set(), is_complex=False)


def check_overlaps(graph: fx.GraphModule, model: str, given: Sequence[_Argument] = ()) -> None:
    """Raises ImportFailure at the first operation of an exported graph that writes into such a tensor.

    `given`: the arguments of the graph of a region.
    """
    arguments = iter(given)
    # By node, the memory of such tensors in its result.
    shared: dict[fx.Node, set[int]] = {}
    complexes: set[int] = set()
    for node in graph.graph.nodes:
        argument = next(arguments, _NO_ARGUMENT) if node.op == "placeholder" else _NO_ARGUMENT
        of_operands = {key for each in node.all_input_nodes for key in shared[each]}
        results = _memory(node)
        own = {storage_key(each) for each in _tensors(node) if _overlaps(each)}
        own |= results if of_operands and _gives_operand(node) else set()
        of_views = of_operands & results
        _check_complex(node, complexes, model)
        complexes |= {storage_key(each) for each in _tensors(node) if each.is_complex() or argument.is_complex}
        shared[node] = of_views | own | argument.shared
        operands = [each for each in node.all_input_nodes if each.op != "get_attr"]
        inner = [_Argument(shared[each], not complexes.isdisjoint(_memory(each))) for each in operands]
        for region in regions(node):
            check_overlaps(region, model, inner)
        if of_views and not regions(node) and may_write(node):
            raise ImportFailure(
                f"{origin.of_exported_node(node, model)}: {origin.op_name(node.target)}",
                "writes into a tensor whose elements share memory, as those of `expand` do",
                hint="write into the tensor that was expanded, or into a copy (.clone())",
            )


def _gives_operand(node: fx.Node) -> bool:
    """Whether an operation gives its operand itself, where its result is known as a copy."""
    if node.target not in _DROPOUTS:
        return False
    _, probability, is_training = node.args
    return not is_training or bool(probability == 0.0)


def _check_complex(node: fx.Node, complexes: set[int], model: str) -> None:
    """Raises ImportFailure for a write into what lies in the memory of a complex tensor: its parts are apart here."""
    first = node.args[0] if node.args else None
    if not isinstance(first, fx.Node) or not may_write(node) or regions(node):
        return
    if complexes & _memory(first):
        raise ImportFailure(
            f"{origin.of_exported_node(node, model)}: {origin.op_name(node.target)}",
            "writes into the memory of a complex tensor",
            hint="write into a copy (.clone())",
        )


def _memory(node: fx.Node) -> set[int]:
    return set(map(storage_key, _tensors(node)))


def _tensors(node: fx.Node) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(node.meta.get("val")) if isinstance(each, Tensor)]


def _overlaps(tensor: Tensor) -> bool:
    """Whether two elements may be the same memory: a step is no longer than all steps of shorter dimensions.

    Of what masks choose, whose sizes data decide, only what is expanded shares memory.
    """
    if is_sized_by_data(tensor):
        return any(each == 0 for each in tensor.stride() if type(each) is int)
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False
