"""Tensors whose values are known while a model is traced: those that depend on neither state nor batch.

Models look at the masks that they make themselves, as in `if mask.all():`, and eager sees the same in each call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

from dmc.importer.torch_internals import (
    OpOverload,
    autocast_of,
    draws_numbers,
    enter_autocast,
    exit_autocast,
    is_batchedtensor,
    literal_of,
    may_write,
    storage_key,
    traced_node,
    untraced,
)

aten = torch.ops.aten
# These look at no values of their operand.
_OF_SHAPES = {
    *(aten.ones_like.default, aten.zeros_like.default, aten.full_like.default),
    *(aten.new_ones.default, aten.new_zeros.default, aten.new_full.default),
}
# A larger tensor counts as unknown.
_MOST_ELEMENTS = 1 << 28


@dataclass
class KnownValues:
    """What the graph that is being traced computes from constants alone, operation by operation, writes included.

    values: the result of each node seen so far, None where it is unknown. casts: the arguments of the regions of
    `torch.autocast` that the last of them is in: a value is known when it is read, which may be in another region.
    """

    graph: fx.Graph | None = None
    values: dict[fx.Node, Any] = field(default_factory=dict)
    casts: list[Any] = field(default_factory=list[Any])

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function that returns Python values gives, such as `Tensor.item`: of known values, else as traced."""
        if (known := _known(self._value, (args, kwargs))) is None:
            return function(*args, **kwargs)
        with untraced():
            return function(*known[0], **known[1])

    def knows(self, tensor: Tensor) -> bool:
        """Whether the values of a tensor are known, or it is no part of the trace."""
        return traced_node(tensor)[0] is None or self._value(tensor) is not None

    def tensor(self, tensor: Tensor) -> Tensor | None:
        """A known tensor with its values, or one that is no part of the trace, such as a module's plain attribute."""
        return self._value(tensor) if traced_node(tensor)[0] is not None else tensor if _is_real(tensor) else None

    def numbers(self, tensor: Tensor) -> list[Any] | None:
        """Those of a known tensor, in a row."""
        value = self.tensor(tensor)
        with untraced():
            return None if value is None else value.reshape(-1).tolist()

    def constants(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function gives for known tensors, as constants; else as traced."""
        if (known := _known(self.tensor, (args, kwargs))) is None:
            return function(*args, **kwargs)
        with untraced():
            results, tree = pytree.tree_flatten(function(*known[0], **known[1]))
            numbers = [each.tolist() for each in results]
        given = zip(results, numbers, strict=True)
        return pytree.tree_unflatten([torch.tensor(n, dtype=r.dtype).reshape(r.shape) for r, n in given], tree)

    def _value(self, tensor: Tensor) -> Tensor | None:
        node, root = traced_node(tensor)
        if node is None:
            return None
        if self.graph is not node.graph:
            self.graph, self.values, self.casts = node.graph, {}, []
        with untraced():
            for each in [each for each in node.graph.nodes if each not in self.values]:
                self._see(each, root)
        return self.values[node]

    def _see(self, node: fx.Node, root: Any) -> None:
        if node.target is enter_autocast:
            self.casts.append(node.args)
        elif node.target is exit_autocast:
            self.casts.pop()
        with autocast_of(self.casts[-1:]):
            self.values[node] = self._computed(node, root)

    def _computed(self, node: fx.Node, root: Any) -> Any:
        if (literal := literal_of(node, root)) is not None:
            return literal.clone()
        if node.op == "get_attr" and isinstance(own := getattr(root, str(node.target), None), Tensor) and _is_real(own):
            return own.clone()
        tensors = _tensors([each.meta.get("val") for each in (node, *node.all_input_nodes)])
        if any(type(size) is not int for each in tensors for size in each.shape):
            return None  # As many as a mask of unknown values chooses.
        looks_at = node.all_input_nodes[1 if node.target in _OF_SHAPES else 0 :]
        if all(self.values[each] is not None for each in looks_at) and _is_repeatable(node):
            args, kwargs = fx.map_arg((node.args, node.kwargs), self._given)
            function: Any = node.target
            return function(*args, **kwargs)
        if may_write(node):
            self._forget(node)
        return None

    def _given(self, node: fx.Node) -> Any:
        """What a known node is given: of an operand that only lends its shape, one of zeros."""
        value, example = self.values[node], node.meta.get("val")
        if value is None and isinstance(example, Tensor):
            return torch.zeros(example.shape, dtype=example.dtype)
        return value

    def _forget(self, node: fx.Node) -> None:
        """What lies in memory where an operation may write."""
        lost = {storage_key(each) for source in node.all_input_nodes for each in _tensors(self.values[source])}
        for known, value in self.values.items():
            if any(storage_key(each) in lost for each in _tensors(value)):
                self.values[known] = None


def _known(value_of: Callable[[Tensor], Tensor | None], operands: Any) -> Any:
    """Operands with the values of their tensors; None where one is unknown."""
    leaves, tree = pytree.tree_flatten(operands)
    known = [value_of(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    is_known = all(value is not None or leaf is None for leaf, value in zip(leaves, known, strict=True))
    return pytree.tree_unflatten(known, tree) if is_known else None


def _is_real(tensor: Tensor) -> bool:
    """Whether a tensor has values."""
    return not isinstance(tensor, FakeTensor) and not is_batchedtensor(tensor)


def _tensors(value: Any) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(value) if isinstance(each, Tensor)]


def _is_repeatable(node: fx.Node) -> bool:
    """Whether a node computes the same of the same operands, and no large tensor."""
    is_operation = isinstance(node.target, OpOverload) and node.target.namespace in ("aten", "prims")
    is_operation = is_operation and not draws_numbers(node.target)
    sizes = [each.numel() for each in _tensors(node.meta.get("val"))]
    return bool(sizes) and max(sizes) <= _MOST_ELEMENTS and (is_operation or node.target is operator.getitem)
