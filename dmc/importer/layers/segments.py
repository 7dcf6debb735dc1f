"""Repeated layers in an exported graph: the operations of modules in a list, where they are the same in several."""

from __future__ import annotations

import operator
import re
from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from dmc.importer import origin
from dmc.importer.forward.assertions import is_asserted
from dmc.importer.forward.patterns import whole_rms_norm
from dmc.importer.torch_internals import VMAP_NESTING, may_write, storage_key

# A module of a list: "model.layers.3".
_MEMBER = re.compile(r"\.\d+$")
# Tracing fewer operations again takes no longer than calling a layer.
_FEWEST = 8
_NONE = ("", "")
# What stands for operations that were recognised, and chooses one of several results.
_FUNCTIONS = (whole_rms_norm, operator.getitem)


@dataclass(frozen=True)
class Segment:
    """Successive operations of one module. path: the module's, as export names it. inputs: nodes before it that it
    reads; outputs: its own that others read."""

    path: str
    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]

    @staticmethod
    def of(path: str, nodes: Sequence[fx.Node]) -> Segment:
        """The segment of some operations, in their order."""
        own = set(nodes)
        inputs = dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in own)
        outputs = [node for node in nodes if any(user not in own for user in node.users)]
        return Segment(path, tuple(nodes), tuple(inputs), tuple(outputs))

    def key(self) -> Hashable:
        """Equal for segments that compute the same of inputs of the same types."""
        numbers = {node: index for index, node in enumerate((*self.inputs, *self.nodes))}
        outputs = tuple(numbers[node] for node in self.outputs)
        # Numbers of checkpoints, in the order in which the segment meets them.
        checkpoints: dict[int, int] = {0: 0}
        operations = tuple((_form(node, numbers), _place(node, self.path, checkpoints)) for node in self.nodes)
        return tuple(map(_types, self.inputs)), operations, outputs


def repeated(graph: fx.Graph, others: Set[fx.Node]) -> list[list[Segment]]:
    """Segments that occur more than once, each kind in the order of the graph. others: operations that are not part of
    any."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    return list(_repeated(nodes, 0, others))


def _repeated(nodes: Sequence[fx.Node], depth: int, others: Set[fx.Node]) -> Iterator[list[Segment]]:
    """Of the lists at some depth of nesting; where its members differ, of the lists in them."""
    kinds: dict[Hashable, list[Segment]] = {}
    for run in _runs(nodes, depth, others):
        segment = Segment.of(_member(run[0], depth)[0], run)
        kinds.setdefault(segment.key() if _is_pure(segment) else object(), []).append(segment)
    for kind in kinds.values():
        if len(kind) > 1 and len(kind[0].nodes) >= _FEWEST:
            yield kind
        elif len(kind) == 1:
            yield from _repeated(kind[0].nodes, depth + 1, others)


def _runs(nodes: Sequence[fx.Node], depth: int, others: Set[fx.Node]) -> Iterator[list[fx.Node]]:
    """Successive operations of the same member of a list."""
    run: list[fx.Node] = []
    before = _NONE
    for node in nodes:
        member = _NONE if node in others or not _is_traceable(node) else _member(node, depth)
        if run and (member != before or node.prev is not run[-1]):
            yield run
            run = []
        if member != _NONE:
            run.append(node)
        before = member
    if run:
        yield run


def _member(node: fx.Node, depth: int) -> tuple[str, str]:
    """The path of the member of a list, at some depth of nesting, that called an operation, and a name of the call;
    empty if there is none."""
    stack = node.meta.get("nn_module_stack") or {}
    members = [(path, call) for call, (path, _) in stack.items() if _MEMBER.search(path)]
    return members[depth] if depth < len(members) else _NONE


def _is_traceable(node: fx.Node) -> bool:
    """Whether an operation is the same wherever it stands: it changes, asserts and runs nothing."""
    if not isinstance(node.target, OpOverload) and node.target not in _FUNCTIONS:
        return False
    if may_write(node) or is_asserted(node) or node.target in VMAP_NESTING:
        return False
    if any(each.op == "get_attr" for each in node.all_input_nodes):
        return False
    values = pytree.tree_leaves(node.meta.get("val"))
    return bool(values) and all(isinstance(each, Tensor) for each in values)


def _is_pure(segment: Segment) -> bool:
    """Whether inputs and outputs are tensors of real numbers, and no output shares memory with another or an input."""
    given, made = ([node.meta.get("val") for node in nodes] for nodes in (segment.inputs, segment.outputs))
    if not all(isinstance(each, Tensor) and each.numel() and not each.is_complex() for each in (*given, *made)):
        return False
    keys: list[Any] = [storage_key(each) for each in made if each is not None]
    return len(set(keys)) == len(keys) and not any(storage_key(each) in keys for each in given if each is not None)


def _form(node: fx.Node, numbers: dict[fx.Node, int]) -> Hashable:
    arguments = pytree.tree_map_only(fx.Node, lambda each: _Number(numbers[each]), (node.args, node.kwargs))
    leaves, tree = pytree.tree_flatten(arguments)
    typed = tuple((type(each), repr(each)) for each in leaves)
    return str(node.target), typed, str(tree), _types(node)


@dataclass(frozen=True)
class _Number:
    """The number of a node, in place of the node."""

    number: int


def _place(node: fx.Node, path: str, checkpoints: dict[int, int]) -> Hashable:
    """Where an operation stands in the user's code, and in which module below `path`."""
    place = node.meta["custom"][origin.META_KEY]
    module = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()][-1]
    return module.removeprefix(path), place.file, place.line, checkpoints.setdefault(place.checkpoint, len(checkpoints))


def _types(node: fx.Node) -> Hashable:
    values = pytree.tree_leaves(node.meta.get("val"))
    return tuple((tuple(each.shape), each.stride(), each.dtype) for each in values)
