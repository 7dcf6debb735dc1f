"""Where masks choose elements, and where chosen numbers select."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, Rule
from dmc.importer.forward.chosen.parts import Label, Parts, from_last, rank_of
from dmc.importer.forward.chosen.values import Choice, Chosen, Extent, Extents, refused, sizes_of
from dmc.importer.torch_internals import version

_OF_ANOTHER = "chooses of what another mask chose"
_OF_FIRST = "let masks of x[first] be made of x[first], or combine both: x[first & second]"


def is_mask(index: Any) -> bool:
    """Whether an index chooses elements rather than places."""
    tensor = index.tensor if isinstance(index, Chosen) else index
    return isinstance(tensor, Tensor) and tensor.dtype == torch.bool


def choice_of(call: Call, mask: Tensor | Chosen, size: Any = None) -> Choice:
    """The choice that a mask makes, its elements in a row; of equal masks one. size: how many they are, as recorded."""
    tensor = mask.tensor if isinstance(mask, Chosen) else mask
    key = "mask", id(mask), version(tensor)

    def chosen() -> Tensor:
        if isinstance(mask, Chosen):
            return (mask.filled & mask.mask()).reshape(-1)
        return mask.clone().reshape(-1) if call.is_written else mask.reshape(-1)

    choice = call.choices.choice(key, mask, chosen)
    if size is not None and not isinstance(size, int):
        for symbol in size.free_symbols:
            call.choices.wholes.setdefault(symbol, choice.size)
    return choice


def indexing(call: Call) -> tuple[Call, Rule]:
    """How `x[index]` is computed: the call and its rule."""
    indices = call.given["indices"]
    given = [(dim, each) for dim, each in enumerate(indices) if each is not None]
    if len(given) == 1 and is_mask(given[0][1]):
        dim, mask = given[0]
        covered = range(dim, dim + rank_of(mask))
        labels = {"self": range(rank_of(call.operands["self"])), f"indices.{dim}": covered}
        parts = Parts(labels, labels["self"], broadcasts=False, makes=covered, different=(_OF_ANOTHER, _OF_FIRST))
        return call, Rule(lambda _: parts, lambda call: _chosen(call, call.given["self"], mask, dim))
    if any(isinstance(each, Chosen) and is_mask(each) for each in indices):
        raise refused("chooses by a mask and by other indices at once", "choose by one at a time: x[mask][rows, i]")
    # A mask beside numbers is the places where it is true.
    split = ([each] if not is_mask(each) else _places(call, each) for each in indices)
    places = [each for group in split for each in group]
    return replace(call, args=[call.given["self"], places], kwargs={}), Rule(_beside, _at_places)


def _chosen(call: Call, x: Tensor | Chosen, mask: Tensor | Chosen, dim: int) -> Any:
    """`x[:, mask]`, of which the mask is at dimension `dim`, chosen as x is there."""
    covered = range(dim, dim + rank_of(mask))
    of_x: Extents = x.extents if isinstance(x, Chosen) else (None,) * x.dim()
    # What is chosen twice has held something else where it was not.
    whole = x.filled if isinstance(x, Chosen) else x
    sizes = sizes_of(call.recorded)
    choice = choice_of(call, mask, sizes[dim])
    if isinstance(sizes[dim], int) and sizes[dim] != choice.size:
        raise refused(
            f"chooses by a mask, and what is chosen is combined with {sizes[dim]} elements",
            "choose so many by their places: x[mask.int().argsort(descending=True, stable=True)[:n]]",
        )
    extents = (*of_x[:dim], Extent(choice), *of_x[dim + len(covered) :])
    shape = [*whole.shape[:dim], choice.size, *whole.shape[dim + len(covered) :]]
    result = Chosen(whole.reshape(shape), extents, sizes, is_raw=True)
    return Chosen(result.filled, extents, sizes) if call.is_written else result


def _beside(call: Call) -> Parts:
    """Indices broadcast with each other. Along an indexed dimension nothing is chosen, unless a row is taken for each
    that is, in order: it meets its own number."""
    indices = call.given["indices"]
    parts = from_last({name: each for name, each in call.operands.items() if name != "self"})
    of_x: list[Label] = [*range(rank_of(call.operands["self"]))]
    for dim, index in enumerate(indices):
        if index is not None:
            of_x[dim] = -1 if _are_all(index, call.given["self"], dim) else ("indexed", dim)
    kept = {*parts.kept, *(dim for dim in of_x if not isinstance(dim, tuple))}
    return Parts({**parts.labels, "self": of_x}, kept)


def _at_places(call: Call) -> Any:
    """`x[rows, columns]`, of which some are chosen."""
    x, indices = call.given["self"], call.given["indices"]
    places: list[Tensor | None] = [None] * len(indices)
    for dim, each in enumerate(indices):
        if each is not None:
            whole = call.whole(f"indices.{dim}")
            places[dim] = torch.arange(whole.shape[0]) if _are_all(each, x, dim) else whole
    return call.made(call.applied({"indices": places}))


def _are_all(index: Any, x: Tensor | Chosen, dim: int) -> bool:
    """Whether an index takes each chosen row of x, in order."""
    return (
        isinstance(index, Chosen) and index.are_ranks and isinstance(x, Chosen) and index.extents == x.extents[dim:][:1]
    )


def _masked(call: Call) -> Parts:
    own = {"different": (_OF_ANOTHER, "expand the mask to the shape of what it chooses from")}
    parts = from_last(call.operands, broadcasts=not call.chosen, **own)
    return replace(parts, makes=parts.kept)


def masked(call: Call) -> Any:
    """`torch.masked_select`."""
    x, mask = call.given["self"], call.given["mask"]
    if call.chosen:
        return _chosen(call, x, mask, 0)
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    return _chosen(call, x.expand(shape), mask if mask.shape == shape else mask.expand(shape), 0)


def _looked_at(call: Call) -> Parts:
    if call.chosen:
        raise refused(
            "looks for places among those that a mask chooses",
            "look for those where both hold: (first & second).nonzero()",
        )
    return Parts({}, unread=call.operands, makes=("places",))


def nonzero(call: Call) -> Any:
    """Where a mask is true: its places, as chosen."""
    mask = call.args[0]
    columns = _places(call, mask if is_mask(mask) else mask != 0)
    if isinstance(call.recorded, Tensor):
        sizes, extents = sizes_of(call.recorded), (columns[0].extents[0], None)
        return Chosen(torch.stack([each.tensor for each in columns], 1), extents, sizes, is_raw=True)
    return type(call.recorded)(columns)


MASKED, PLACES = Rule(_masked, masked), Rule(_looked_at, nonzero)


def _places(call: Call, mask: Tensor) -> list[Chosen]:
    """Of each dimension of a mask, where it is true."""
    recorded = call.recorded if isinstance(call.recorded, Tensor) else call.recorded[0]
    sizes = [size for size in sizes_of(recorded) if not isinstance(size, int)]
    choice = choice_of(call, mask, sizes[0])
    numbers = torch.arange(choice.size)
    found: list[Chosen] = []
    for dim, size in enumerate(mask.shape):
        column = (numbers // math.prod(mask.shape[dim + 1 :])) % size
        found.append(Chosen(column, (Extent(choice),), (sizes[0],), is_raw=True))
    return found
