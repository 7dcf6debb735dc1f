"""Where masks choose elements, and where chosen numbers select."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, check_aligned
from dmc.importer.forward.chosen.values import ALONG_CHOSEN, Choice, Chosen, Extent, Extents, refused, sizes_of
from dmc.importer.torch_internals import version

aten = torch.ops.aten


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


def indexed(call: Call) -> Any:
    """`x[index]`."""
    x, indices = call.given["self"], list(call.given["indices"])
    given = [dim for dim, each in enumerate(indices) if each is not None]
    if len(given) == 1 and is_mask(indices[given[0]]):
        return _chosen(call, x, indices[given[0]], given[0])
    return _at_places(call, x, indices)


def _chosen(call: Call, x: Tensor | Chosen, mask: Tensor | Chosen, dim: int) -> Any:
    """`x[:, mask]`, of which the mask is at dimension `dim`."""
    covered = range(dim, dim + _tensor(mask).dim())
    of_mask: Extents = mask.extents if isinstance(mask, Chosen) else (None,) * len(covered)
    of_x: Extents = x.extents if isinstance(x, Chosen) else (None,) * x.dim()
    if tuple(of_x[each] for each in covered) != of_mask:
        raise refused(
            "chooses of what another mask chose",
            "let masks of x[first] be made of x[first], or combine both: x[first & second]",
        )
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


def masked(call: Call) -> Any:
    """`torch.masked_select`."""
    x, mask = call.given["self"], call.given["mask"]
    shape = torch.broadcast_shapes(_tensor(x).shape, _tensor(mask).shape)
    if isinstance(x, Chosen) or isinstance(mask, Chosen):
        if shape != _tensor(x).shape or shape != _tensor(mask).shape:
            raise refused("chooses of what another mask chose", "expand the mask to the shape of what it chooses from")
        return _chosen(call, x, mask, 0)
    return _chosen(call, x.expand(shape), mask if mask.shape == shape else mask.expand(shape), 0)


def nonzero(call: Call) -> Any:
    """Where a mask is true: its places, as chosen."""
    mask = call.args[0]
    mask = mask if is_mask(mask) else mask != 0
    if isinstance(mask, Chosen):
        raise refused(
            "looks for places among those that a mask chooses",
            "look for those where both hold: (first & second).nonzero()",
        )
    columns = _places(call, mask)
    if isinstance(call.recorded, Tensor):
        sizes, extents = sizes_of(call.recorded), (columns[0].extents[0], None)
        return Chosen(torch.stack([each.tensor for each in columns], 1), extents, sizes, is_raw=True)
    return type(call.recorded)(columns)


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


def _at_places(call: Call, x: Tensor | Chosen, indices: list[Any]) -> Any:
    """`x[rows, columns]`, of which some are chosen."""
    if any(isinstance(each, Chosen) and is_mask(each) for each in indices):
        raise refused("chooses by a mask and by other indices at once", "choose by one at a time: x[mask][rows, i]")
    # A mask beside numbers is the places where it is true.
    split = ([each] if not is_mask(each) else _places(call, each) for each in indices)
    indices = [each for group in split for each in group]
    extents: Extents = x.extents if isinstance(x, Chosen) else (None,) * x.dim()
    for dim, index in enumerate(indices):
        extent = extents[dim]
        if index is None or extent is None:
            continue
        # A row for each that is chosen, in order.
        if not isinstance(index, Chosen) or not index.are_ranks or index.extents != (extent,):
            raise refused(ALONG_CHOSEN)
        indices[dim] = Chosen(torch.arange(extent.whole), index.extents, index.sizes)
    check_aligned([each for each in indices if isinstance(each, Chosen)])
    return call.made(call.applied({"indices": indices}))


def _tensor(x: Any) -> Tensor:
    return x.tensor if isinstance(x, Chosen) else x
