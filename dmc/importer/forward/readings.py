"""What operations read as indices, and how many each of them has to choose from, as PyTorch on a CPU checks them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx

from dmc.importer.torch_internals import argument_names, written

aten = torch.ops.aten
# The arguments of an operation by name: nodes of a graph, or tensors.
_Given: TypeAlias = Mapping[str, Any]
_MASKS = (torch.bool, torch.uint8)
_MOVES = {
    *(aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int, aten.contiguous.default),
    *(aten.transpose.int, aten.permute.default, aten.t.default, aten.movedim.int, aten.expand.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.unsqueeze.default, aten.slice.Tensor, aten.select.int),
    *(aten.clone.default, aten.detach.default, aten.alias.default, aten.narrow.default),
    *(aten.to.dtype, aten._to_copy.default),
}
CONVERSIONS = (aten.to.dtype, aten._to_copy.default)
# Conversions to these change no index that is in range. To a boolean, every other number becomes one.
_WIDE = (torch.int32, torch.int64)


@dataclass(frozen=True)
class Reading:
    """index: a node or a tensor. size: indices are below it. what: reads them, for people. least: the smallest index,
    0 or -size. ignored: a value that is allowed beside them. is_silent: whether one that is out of range would leave no
    NaN: what it should have written is missing, or integers are read.
    """

    index: Any
    size: Any  # an int, or a number that data decide while a model is traced
    what: str
    least: int = 0
    ignored: int | None = None
    is_silent: bool = False

    def holds(self, index: Tensor) -> Tensor:
        """Whether all indices are in range, a boolean []."""
        index = distinct(index)
        inside = (index >= self.least) & (index < self.size)
        return (inside if self.ignored is None else inside | (index == self.ignored)).all()


def distinct(index: Tensor) -> Tensor:
    """The elements of a tensor that is expanded, each once: an index is often one for many columns."""
    for dim, stride in enumerate(index.stride()):
        index = index.narrow(dim, 0, 1) if stride == 0 and index.shape[dim] > 1 else index
    return index


def readings(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Reading, ...]:
    """What a call of an operation reads as indices."""
    reader = _READERS.get(target)
    if reader is None:
        return ()
    found = reader({**dict(zip(argument_names(target), args, strict=False)), **kwargs})
    # Where data decide how many there are to choose from, numbers do not choose.
    return tuple(each for each in found if isinstance(each.size, int))


def silent(graph: fx.GraphModule) -> dict[fx.Node, tuple[Reading, ...]]:
    """By operation what it reads as indices, if one out of range would leave no NaN, and if there can be one."""
    changed = written(graph.graph)
    found: dict[fx.Node, tuple[Reading, ...]] = {}
    for node in graph.graph.nodes:
        each = readings(node.target, node.args, node.kwargs) if node.op == "call_function" else ()
        if kept := tuple(r for r in each if r.is_silent and not _is_within(r.index, r.size, changed)):
            found[node] = kept
    return found


def moves(node: fx.Node) -> bool:
    """Whether the elements of a node are those of its first operand, in a type that holds every index."""
    return node.target in _MOVES and (node.target not in CONVERSIONS or node.meta["val"].dtype in _WIDE)


def _is_within(node: Any, size: int, changed: Set[fx.Node]) -> bool:
    """Whether a node holds numbers from 0 to below `size`, whatever is in the batch."""
    bound = _below(node, changed) if isinstance(node, fx.Node) else None
    return isinstance(bound, int) and bound <= size


def _below(node: fx.Node, changed: Set[fx.Node]) -> int | None:
    """A number above all in the node, which are not negative; None where none is known, or it is `changed` in place."""
    if node in changed:
        return None
    if (known := _BELOW.get(node.target)) is not None:
        return known(node)
    if moves(node) and isinstance(node.args[0], fx.Node):
        return _below(node.args[0], changed)
    if node.target is not _GETITEM or node.args[1] != 1:
        return None
    source: Any = node.args[0]
    return _places(source) if source.target in _WITH_PLACES else None


def _places(node: fx.Node) -> int | None:
    """How many places an operation along a dimension, by default the last, chooses from."""
    given = _named(node)
    value = _tensor(given["self"])
    dim = given.get("dim", None if node.target in _OF_ALL else -1)
    return value.numel() if dim is None else _along(value, dim)


def _named(node: fx.Node) -> dict[str, Any]:
    overload: Any = node.target
    return {**dict(zip(argument_names(overload), node.args, strict=False)), **node.kwargs}


def _remainder(node: fx.Node) -> int | None:
    divisor = node.args[1]
    return divisor if isinstance(divisor, int) and divisor > 0 else None


def _clamped(node: fx.Node) -> int | None:
    given = _named(node)
    least, most = given.get("min"), given.get("max")
    return most + 1 if isinstance(least, int) and isinstance(most, int) and 0 <= least <= most else None


def _counted(node: fx.Node) -> int | None:
    end = node.args[0]
    return end if isinstance(end, int) else None


def _tensor(value: Any) -> Tensor:
    return value.meta["val"] if isinstance(value, fx.Node) else value


def _along(value: Tensor, dim: int) -> int:
    return value.shape[dim] if value.dim() else 1


def _holds_integers(value: Any) -> bool:
    return not (_tensor(value).is_floating_point() or _tensor(value).is_complex())


def _embedding(given: _Given) -> Iterator[Reading]:
    yield Reading(given["indices"], _tensor(given["weight"]).shape[0], "the embedding")


def _loss(given: _Given) -> Iterator[Reading]:
    # Targets that are probabilities are no integers.
    if _holds_integers(given["target"]):
        scores = _tensor(given["self"])
        classes = scores.shape[min(1, scores.dim() - 1)]
        yield Reading(given["target"], classes, "the classes of the loss", ignored=given.get("ignore_index", -100))


def _margins(given: _Given) -> Iterator[Reading]:
    yield Reading(given["target"], _along(_tensor(given["self"]), -1), "the classes of the loss", is_silent=True)


def _one_hot(given: _Given) -> Iterator[Reading]:
    if given.get("num_classes", -1) > 0:
        yield Reading(given["self"], given["num_classes"], "the classes of one_hot", is_silent=True)


def _at_indices(what: str, writes: bool) -> Callable[[_Given], Iterator[Reading]]:
    """By an index for each of the first dimensions; None stands for all, and a mask for several dimensions."""

    def read(given: _Given) -> Iterator[Reading]:
        table, dim = given["self"], 0
        for each in given["indices"]:
            is_mask = each is not None and _tensor(each).dtype in _MASKS
            if each is not None and not is_mask:
                size = _tensor(table).shape[dim]
                yield Reading(each, size, what, -size, is_silent=writes or _holds_integers(table))
            dim += _tensor(each).dim() if is_mask else 1

    return read


def _along_dim(what: str, writes: bool = False, wraps: bool = False) -> Callable[[_Given], Iterator[Reading]]:
    """By an index along one dimension. wraps: whether negative ones count from the end."""

    def read(given: _Given) -> Iterator[Reading]:
        table, dim = given["self"], given.get("dim")
        size = _tensor(table).numel() if dim is None else _along(_tensor(table), dim)
        index = given["index"] if "index" in given else given["indices"]
        yield Reading(index, size, what, -size if wraps else 0, is_silent=writes or _holds_integers(table))

    return read


def _table() -> Iterator[tuple[Any, Callable[[_Given], Iterator[Reading]]]]:
    for name, reader in _BY_NAME.items():
        for packet in (getattr(aten, each, None) for each in (name, f"{name}_")):
            overloads = () if packet is None else (getattr(packet, each) for each in packet.overloads())
            yield from ((each, reader) for each in overloads if "out" not in argument_names(each))


_BY_NAME: Mapping[str, Callable[[_Given], Iterator[Reading]]] = {
    "embedding": _embedding,
    "embedding_bag": _embedding,
    "cross_entropy_loss": _loss,
    "nll_loss_nd": _loss,
    "multi_margin_loss": _margins,
    "one_hot": _one_hot,
    "index": _at_indices("the table", writes=False),
    "index_put": _at_indices("what it writes", writes=True),
    "index_select": _along_dim("the table"),
    "gather": _along_dim("the table"),
    "take": _along_dim("the table", wraps=True),
    "put": _along_dim("what it writes", writes=True, wraps=True),
    "index_fill": _along_dim("what it writes", writes=True, wraps=True),
    **{
        name: _along_dim("what it writes", writes=True)
        for name in ("index_add", "index_copy", "index_reduce", "scatter", "scatter_add", "scatter_reduce")
    },
}
_READERS = dict(_table())
_GETITEM = operator.getitem
_OF_ALL = (aten.argmax.default, aten.argmin.default)
_WITH_PLACES = (
    *(aten.topk.default, aten.sort.default, aten.sort.stable, aten.max.dim, aten.min.dim),
    *(aten.kthvalue.default, aten.median.dim, aten.mode.default),
)
_BELOW: Mapping[Any, Callable[[fx.Node], int | None]] = {
    **dict.fromkeys((*_OF_ALL, aten.argsort.default, aten.argsort.stable), _places),
    aten.remainder.Scalar: _remainder,
    aten.clamp.default: _clamped,
    aten.arange.default: _counted,
}
