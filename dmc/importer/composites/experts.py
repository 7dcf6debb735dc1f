"""Mixtures of experts whose rows are sorted by expert: the order, the rows in it, and each expert's products.

Shapes do not depend on the routing, no row is lost whatever it is, and nothing is scattered: the permutation is known
in both directions, so that a gradient is a gather, too. A group is the rows from `begins[e]` to `ends[e]`, one behind
the other. Rows are in `P` parts, each sorted alone: those of ranks that have batches of their own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.composites.base import composite, differentiable, differentiable_by_definition
from dmc.importer.composites.embedding import embedding_backward


@composite("expert_order(Tensor expert, int experts) -> (Tensor, Tensor, Tensor, Tensor)")
def expert_order(expert: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The slots of each part, of which `expert` (int64 [P, S]) says the experts, sorted by these, in order within each.

    Returns the slot of each sorted row, the row of each slot, and where the groups of rows begin and end [P, experts].
    Slots without an expert, whose number is out of range, come last.
    """
    group = torch.where((expert >= 0) & (expert < experts), expert, experts)
    hit = group.unsqueeze(2) == torch.arange(experts + 1, device=expert.device)
    counts = _running_sums(hit.to(torch.int64))
    ends = counts[:, -1].cumsum(1)
    begins = ends - counts[:, -1]
    place = torch.where(hit, begins.unsqueeze(1) + counts - 1, 0).sum(2)
    return _inverse(counts, begins, ends), place, begins[:, :experts].clone(), ends[:, :experts].clone()


def _running_sums(x: Tensor) -> Tensor:
    """Over dimension 1, looking back twice as far each time."""
    for distance in (1 << power for power in range((x.shape[1] - 1).bit_length())):
        x = x + functional.pad(x[:, :-distance], [0, 0, distance, 0])
    return x


def _inverse(counts: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    """The slot of each row: the first at which so many of its group are counted, by bisection."""
    parts, slots, groups = counts.shape
    row = torch.arange(slots, device=counts.device)
    group = _group_of(ends, row)
    wanted = row - begins.gather(1, group) + 1
    flat = counts.reshape(parts, -1)
    first, end = torch.zeros_like(group), torch.full_like(group, slots)
    for _ in range(slots.bit_length()):
        middle = (first + end) // 2
        counted = flat.gather(1, middle.clamp(max=slots - 1) * groups + group)
        is_before = (first < end) & (counted < wanted)
        first, end = torch.where(is_before, middle + 1, first), torch.where(is_before, end, middle)
    return first


def _group_of(ends: Tensor, row: Tensor) -> Tensor:
    """How many groups end before each row, in each part."""
    return (ends.unsqueeze(1) <= row.unsqueeze(1)).to(torch.int64).sum(2)


def _rows_at(x: Tensor, place: Tensor) -> Tensor:
    """Of each part the rows at `place` [P, S]."""
    return x.gather(1, place.unsqueeze(2).expand(-1, -1, x.shape[2]))


@composite("dispatch(Tensor x, Tensor order, Tensor place, int slots) -> Tensor")
def dispatch(x: Tensor, order: Tensor, place: Tensor, slots: int) -> Tensor:
    """The row of `x` [P, T, H] of each sorted slot, of which each has `slots`: [P, T · slots, H]."""
    return _rows_at(x, order // slots)


@composite("combine(Tensor rows, Tensor order, Tensor place, int slots) -> Tensor")
def combine(rows: Tensor, order: Tensor, place: Tensor, slots: int) -> Tensor:
    """The sums of the rows [P, S, H] of so many slots each, in order, in f32: [P, S / slots, H]."""
    taken = _rows_at(rows, place)
    if slots == 1:
        return taken
    parts, count, width = rows.shape
    return taken.reshape(parts, count // slots, slots, width).sum(2, dtype=torch.float32).to(rows.dtype)


@composite("grouped_product(Tensor rows, Tensor matrices, Tensor begins, Tensor ends, bool turned) -> Tensor")
def grouped_product(rows: Tensor, matrices: Tensor, begins: Tensor, ends: Tensor, turned: bool) -> Tensor:
    """The rows [P, S, K] of each group times its matrix, of [E, K, N], or of [E, N, K] if they are `turned`: [P, S, N].

    Rows of no group are zero.
    """
    parts, count, _ = rows.shape
    tiles = _Tiles.of(count, begins, ends)
    factors = matrices.index_select(0, tiles.group.reshape(-1))
    factors = factors.transpose(1, 2) if turned else factors
    product = torch.bmm(tiles.take(rows), factors)
    row = torch.arange(count, device=rows.device)
    group = _group_of(ends, row).clamp(max=ends.shape[1] - 1)
    offset = row - begins.gather(1, group)
    is_inside = (offset >= 0) & (row < ends.gather(1, group))
    place = torch.where(is_inside, tiles.first.gather(1, group) * tiles.height + offset, 0)
    made = _rows_at(product.unflatten(0, (parts, -1)).flatten(1, 2), place)
    return torch.where(is_inside.unsqueeze(2), made, 0.0).to(rows.dtype)


@composite("grouped_outer_product(Tensor left, Tensor right, Tensor begins, Tensor ends) -> Tensor")
def grouped_outer_product(left: Tensor, right: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    """For each group the transposed rows of `left` [P, S, K] times those of `right` [P, S, N], in f32, summed over the
    parts: [E, K, N].
    """
    tiles = _Tiles.of(left.shape[1], begins, ends)
    inside = tiles.inside.flatten(0, 1).unsqueeze(2)
    first, second = (torch.where(inside, tiles.take(each), 0.0).float() for each in (left, right))
    sums = torch.bmm(first.transpose(1, 2), second)
    group = torch.where(tiles.inside[:, :, 0], tiles.group, -1).reshape(-1)
    total = embedding_backward(sums.flatten(1), group, ends.shape[1], -1)
    return total.reshape(-1, left.shape[2], right.shape[2]).to(left.dtype)


class _Tiles:
    """Tiles of rows of which each is in one group. Half an average group is as high, so that there are few for any
    routing.

    group: of each tile [P, tiles], some where it is not used. first: the first tile of each group [P, E]. place: the
    rows [P, tiles, height], of which those `inside` count.
    """

    def __init__(self, height: int, first: Tensor, group: Tensor, place: Tensor, inside: Tensor) -> None:
        self.height, self.first, self.group, self.place, self.inside = height, first, group, place, inside

    @staticmethod
    def of(rows: int, begins: Tensor, ends: Tensor) -> _Tiles:
        """The tiles of so many rows of each part."""
        groups = ends.shape[1]
        height = -(-rows // (2 * groups))
        number = torch.arange((rows + groups * (height - 1)) // height, device=ends.device)
        counts = (ends - begins + (height - 1)) // height
        after = counts.cumsum(1)
        first = after - counts
        group = _group_of(after, number).clamp(max=groups - 1)
        begin = begins.gather(1, group) + (number - first.gather(1, group)) * height
        place = begin.unsqueeze(2) + torch.arange(height, device=ends.device)
        inside = place < ends.gather(1, group).unsqueeze(2)
        return _Tiles(height, first, group, place.clamp(0, rows - 1), inside)

    def take(self, rows: Tensor) -> Tensor:
        """The rows of each tile [P · tiles, height, K], some where there are fewer."""
        taken = _rows_at(rows, self.place.flatten(1, 2))
        return taken.unflatten(1, self.place.shape[1:]).flatten(0, 1)


def _moved_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, order, place, ctx.slots = inputs
    ctx.save_for_backward(order, place)


def _dispatch_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return torch.ops.dmc.combine(dy, *ctx.saved_tensors, ctx.slots), None, None, None


def _combine_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return torch.ops.dmc.dispatch(dy, *ctx.saved_tensors, ctx.slots), None, None, None


def _product_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.turned = inputs
    ctx.save_for_backward(*tensors)


def _product_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    rows, matrices, *bounds = ctx.saved_tensors
    taken, given = ctx.needs_input_grad[:2]
    left, right = (dy, rows) if ctx.turned else (rows, dy)
    return (
        torch.ops.dmc.grouped_product(dy, matrices, *bounds, not ctx.turned) if taken else None,
        torch.ops.dmc.grouped_outer_product(left, right, *bounds) if given else None,
        None,
        None,
        None,
    )


differentiable("dispatch", _moved_setup, _dispatch_backward, is_linear=True)
differentiable("combine", _moved_setup, _combine_backward, is_linear=True)
differentiable("grouped_product", _product_setup, _product_backward)
differentiable_by_definition("grouped_outer_product")
