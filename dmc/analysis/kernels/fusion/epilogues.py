"""Epilogues that cost more than they save, which shows only when everything else is fused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from dmc.analysis.kernels.fusion.rules import Rules
from dmc.analysis.kernels.groups import Group
from dmc.analysis.kernels.reads import memory_reads
from dmc.analysis.kernels.shapes import loops_of

WIDER = "a result that is wider than what it is made of, and that another kernel can make"


def wide_epilogues(rules: Rules, readers: Callable[[int], Collection[int]]) -> Iterator[tuple[int, int]]:
    """Pairs of operations in a product's kernel, a maker and its reader, between which less is in memory than behind
    them.

    The product's result is narrow, and a sum of it and a wide tensor, such as the gradient of a residual, is wide.
    Where a single other kernel reads the sum, it can read the product and the tensor instead. The greedy fusion does
    not see that: at first several operations read the sum, and one the product.
    readers: of a value, the numbers of the kernels.
    """
    for group in rules.groups.values():
        if group.loops is not None and group.loops.product and len(group.members) > 1:
            yield from _of_kernel(rules, group, readers)


def _of_kernel(rules: Rules, group: Group, readers: Callable[[int], Collection[int]]) -> Iterator[tuple[int, int]]:
    numbered, bytes_ = rules.values.number, rules.values.bytes
    made = {numbered(value): member for member in group.members for value in rules.graph.ops[member].results}
    inside = _behind_the_product(rules, group, made)
    for value in sorted(group.writes):
        kernels = [rules.groups.get(each) for each in readers(value)]
        if len(kernels) != 1 or kernels[0] is None or kernels[0].loops is None or kernels[0].loops.product:
            continue
        least, member, found = bytes_[value], made[value], None
        # Back along what is made of one value behind the product, to the narrowest.
        while len(inside[member]) == 1:
            (source,) = inside[member]
            size = 0 if source in group.writes else bytes_[source]
            if size < least:
                least, found = size, (made[source], member)
            if sum(source in each for each in inside.values()) > 1:
                break
            member = made[source]
        if found is not None:
            yield found


def _behind_the_product(rules: Rules, group: Group, made: Mapping[int, int]) -> dict[int, set[int]]:
    """What each operation of a product's kernel reads of the product, and of what is made of that."""
    found: dict[int, set[int]] = {}
    behind: set[int] = set()
    for member in sorted(group.members):
        read = {rules.values.number(each.base) for each in memory_reads(rules.graph, member)}
        found[member] = {value for value in read & made.keys() if made[value] in behind}
        loops = rules.graph.fact(loops_of, member, rules.own)
        if found[member] or (loops is not None and loops.product):
            behind.add(member)
    return found
