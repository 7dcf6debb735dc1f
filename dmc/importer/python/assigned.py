"""Assignments to `.data`, as of a teacher's weights or a norm that is kept below a bound: written into the tensor.

Eager lets the tensor use the other one's memory from then on, and tells nobody. Writing the values into its own means
the same if no gradient needs what was read before, no alias of the old memory is used any more, and neither tensor is
written afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

import torch
from torch import Tensor, fx

from dmc.errors import ImportFailure
from dmc.importer.torch_internals import (
    SETS_GRADIENTS,
    is_view,
    storage_key,
    traced_node,
    version,
    without_torch_functions,
)

_HINT = "write into the tensor: x.copy_(…) under torch.no_grad()"
_DETACH = torch.ops.aten.detach.default


@dataclass(frozen=True)
class _Assignment:
    """aliases: of the tensor's old memory, as nodes. before: the nodes of the trace until then."""

    x: Tensor
    value: Tensor
    versions: tuple[int, int]
    aliases: Set[fx.Node]
    before: Set[fx.Node]

    @property
    def is_noticed(self) -> bool:
        is_written = (version(self.x), version(self.value)) != self.versions
        return is_written or any(user not in self.before for alias in self.aliases for user in alias.users)


@dataclass
class AssignedData:
    """Those of one trace."""

    made: list[_Assignment] = field(default_factory=list[_Assignment])

    def assign(self, name: str | None, x: Tensor, value: Tensor) -> None:
        """`x.data = value`, where `name` is that of a parameter or buffer."""
        if _is_same_memory(x, value):
            return  # As in `x.data *= 2`, which has written it already.
        if name is None:
            raise ImportFailure(None, "assigns to .data", _HINT)
        if value.shape != x.shape or value.dtype != x.dtype:
            raise ImportFailure(None, f"assigns to .data of {name} what has another shape or type", _HINT)
        node, _ = traced_node(x)
        if node is None or any(_keeps(user) for user in node.users):
            raise ImportFailure(None, f"assigns to .data of {name} after it was read", _HINT)
        if not _is_new(value) or storage_key(value) in [storage_key(each.value) for each in self.made]:
            fact = f"assigns to .data of {name} the memory of another tensor"
            raise ImportFailure(None, fact, hint="assign a copy, as of x.clone()")
        aliases, before = _aliases(node), set(node.graph.nodes)
        with torch.no_grad():
            x.detach().copy_(value)
        self.made.append(_Assignment(x, value, (version(x), version(value)), aliases, before))

    def close(self, registered: Iterable[Tensor]) -> None:
        """Raises ImportFailure where eager would tell two memories apart, or see that two tensors share one."""
        with without_torch_functions():
            kept = {storage_key(each) for each in registered} if self.made else set[int]()
            if any(each.is_noticed or storage_key(each.value) in kept for each in self.made):
                fact = "uses old memory of a tensor after assigning to its .data, or writes into either tensor"
                raise ImportFailure(None, fact, _HINT)


def _aliases(node: fx.Node) -> set[fx.Node]:
    """What shares a tensor's memory."""
    found = {user for user in node.users if is_view(user.target) or user.target is _DETACH}
    return found.union(*(_aliases(user) for user in found))


def _is_new(value: Tensor) -> bool:
    """Whether an operation of the trace has made the memory of a tensor."""
    node, _ = traced_node(value)
    while node is not None and (is_view(node.target) or node.target is _DETACH):
        node = node.all_input_nodes[0]
    return node is not None and node.op == "call_function"


def _keeps(user: fx.Node) -> bool:
    """Whether autograd may keep what an operation has read."""
    if user.target is _DETACH:
        return False
    regions = [node for node in user.graph.nodes if node is user or node.target is SETS_GRADIENTS]
    before = regions[: regions.index(user)]
    return not before or bool(before[-1].args[0])


def _is_same_memory(x: Tensor, value: Tensor) -> bool:
    layouts = [(each.shape, each.stride(), each.storage_offset(), each.dtype) for each in (x, value)]
    return storage_key(x) == storage_key(value) and layouts[0] == layouts[1]
