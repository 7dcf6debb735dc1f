"""Which tensors of a graph that is being traced hold the same elements: those computed by equal operations of equal
operands, in which nothing was written in between (value numbering; Alpern, Wegman and Zadeck, 1988)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from dmc.importer.torch_internals import draws_numbers, is_view, may_write, name_of, traced_node, updates_statistics

# These give the elements of their operand, in the same order.
_SAME = frozenset(
    "view reshape flatten unflatten squeeze unsqueeze contiguous clone detach alias lift_fresh_copy _unsafe_view ravel"
    " view_as reshape_as".split()
)
_EXPANSIONS = frozenset("expand expand_as broadcast_to".split())
# Of these two operands may change places.
_COMMUTATIVE = frozenset(
    "add mul maximum minimum eq ne bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor"
    " __and__ __or__ __xor__".split()
)
# These give whatever is in memory.
_UNKNOWN = ("empty", "new_empty")
Number = int


@dataclass
class Numbering:
    """Of one graph. numbers: of the elements of a node, in a row. roots: by node the one whose memory it is in. writes:
    how often that was written. known: numbers by what they stand for."""

    graph: fx.Graph | None = None
    numbers: dict[fx.Node, Number] = field(default_factory=dict[fx.Node, Number])
    roots: dict[fx.Node, fx.Node] = field(default_factory=dict[fx.Node, fx.Node])
    writes: dict[fx.Node, int] = field(default_factory=dict[fx.Node, int])
    known: dict[Hashable, Number] = field(default_factory=dict[Hashable, Number])

    def of(self, tensor: Tensor) -> Number | None:
        """The number of what a tensor holds now; None for one that is no part of the graph."""
        node = self._node(tensor)
        return None if node is None else self._read(node)

    def of_first_column(self, tensor: Tensor) -> Number | None:
        """The number of `tensor[..., 0]`, where all columns are equal; else None."""
        node = self._node(tensor)
        return None if node is None else self._first_column(node)

    def _node(self, tensor: Tensor) -> fx.Node | None:
        node = traced_node(tensor)[0]
        if node is None:
            return None
        if self.graph is not node.graph:
            self.graph, self.numbers, self.roots, self.writes = node.graph, {}, {}, {}
        for each in node.graph.nodes:
            if each not in self.numbers:
                self.numbers[each] = self._seen(each)
        return node

    def _read(self, node: fx.Node) -> Number:
        writes = self.writes.get(root := self.roots[node], 0)
        return self._number("written", self.numbers[node], root, writes) if writes else self.numbers[node]

    def _number(self, *key: Hashable) -> Number:
        return self.known.setdefault(key, len(self.known))

    def _seen(self, node: fx.Node) -> Number:
        self.roots[node] = node
        target, operands = node.target, node.all_input_nodes
        if not isinstance(target, OpOverload) or draws_numbers(target) or name_of(target).startswith(_UNKNOWN):
            return self._number(node)
        if written := _written(node):
            for each in written:
                self.writes[self.roots[each]] = self.writes.get(self.roots[each], 0) + 1
            self.roots[node] = self.roots[written[0]]
            return self._number(node)
        if is_view(target) and operands:
            self.roots[node] = self.roots[operands[0]]
        name, first = name_of(target), node.args[0] if node.args else None
        is_whole = name in _EXPANSIONS and isinstance(first, fx.Node) and _size(first) == _size(node)
        is_same = name in _SAME and target is not torch.ops.aten.view.dtype
        if isinstance(first, fx.Node) and (is_same or is_whole):
            return self._read(first)
        return self._operation(node, self._read, _shape(node))

    def _operation(
        self, node: fx.Node, number_of: Callable[[fx.Node], Number | None], shape: tuple[str, ...]
    ) -> Number:
        """The number of an operation on operands of these numbers, of a result of this shape. Where it computes each
        element of those at the same place, shapes do not matter."""
        is_by_element = torch.Tag.pointwise in getattr(node.target, "tags", ())
        is_by_element = is_by_element and all(_size(each) in (_size(node), "1") for each in node.all_input_nodes)

        def described(leaf: Any) -> Hashable:
            if isinstance(leaf, fx.Node):
                return "node", number_of(leaf), () if is_by_element else _shape(leaf)
            return type(leaf), str(leaf)

        leaves, tree = pytree.tree_flatten((node.args, node.kwargs))
        operands = [*map(described, leaves)]
        is_commutative = isinstance(node.target, OpOverload) and name_of(node.target) in _COMMUTATIVE
        if is_commutative and all(isinstance(each, fx.Node) for each in leaves):
            operands.sort(key=str)
        return self._number(node.target, str(tree), () if is_by_element else shape, *operands)

    def _first_column(self, node: fx.Node) -> Number | None:
        value, first = node.meta.get("val"), node.args[0] if node.args else None
        if not isinstance(value, Tensor) or value.dim() < 2 or self.writes.get(self.roots[node]):
            return None
        if not isinstance(node.target, OpOverload) or not isinstance(first, fx.Node):
            return None
        if torch.Tag.pointwise in node.target.tags:
            return self._first_column_of_elements(node, value)
        given, name = first.meta["val"], name_of(node.target)
        is_by_row = given.dim() > 0 and given.shape[-1] == value.shape[-1] and given.dim() > 1
        if name in _EXPANSIONS and given.dim() == value.dim() and given.shape[:-1] == value.shape[:-1]:
            return self._read(first) if given.shape[-1] == 1 else self._first_column(first)
        is_same = name in (*_SAME, "to", "_to_copy") and node.target is not torch.ops.aten.view.dtype
        return self._first_column(first) if is_same and is_by_row else None

    def _first_column_of_elements(self, node: fx.Node, value: Tensor) -> Number | None:
        columns: dict[fx.Node, Number] = {}
        for each in node.all_input_nodes:
            given = each.meta.get("val")
            if not isinstance(given, Tensor) or (given.dim() and given.shape[:-1] != value.shape[:-1]):
                return None
            is_column = not given.dim() or given.shape[-1] == 1
            number = self._read(each) if is_column else self._first_column(each)
            if number is None or self.writes.get(self.roots[each]):
                return None
            columns[each] = number
        return self._operation(node, columns.get, ())


def _written(node: fx.Node) -> list[fx.Node]:
    """What an operation writes: its first operand, or running statistics."""
    if not may_write(node):
        return []
    places = node.args[3:5] if updates_statistics(node.target) else (node.kwargs.get("out", node.args[0]),)
    return [each for each in pytree.tree_leaves(places) if isinstance(each, fx.Node)]


def _shape(node: fx.Node) -> tuple[str, ...]:
    value = node.meta.get("val")
    return tuple(map(str, value.shape)) if isinstance(value, Tensor) else ()


def _size(node: fx.Node) -> str:
    value = node.meta.get("val")
    return str(value.numel()) if isinstance(value, Tensor) else ""
