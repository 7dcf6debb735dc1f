"""V5b: collectives that share two ranks or more never run at the same time."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise
from operator import itemgetter

from dmc.errors import ProofError
from dmc.program import Job, Program
from dmc.proof.instances import collectives, key_of
from dmc.proof.order import Order
from dmc.proof.story import where

# Movements of one rank on one lane with the same members, by their indices in its program; they are ordered.
_Chains = dict[tuple[int, frozenset[int]], list[int]]


def check_communicators(job: Job, orders: tuple[Order, ...]) -> None:
    """Raises ProofError for two movements that share two ranks, one of which does not order them.

    Two communicators over the same devices may hang when both are active, even where every rank issues them in one
    order, because nothing makes the devices start them in that order. So on each rank that two movements share, one
    must end before the other begins. V5 has checked that the ranks agree on which.
    """
    for program, order in zip(job.programs, orders, strict=True):
        chains: _Chains = defaultdict(list)
        for index, command in collectives(program):
            chains[command.lane, frozenset(key_of(program, command)[2])].append(index)
        for (one, members), (other, others) in combinations(chains, 2):
            if one != other and len(members & others) > 1:
                shared = sorted(members & others)
                _check(program, order, shared, chains[one, members], chains[other, others])


def _check(program: Program, order: Order, shared: list[int], one: list[int], other: list[int]) -> None:
    """Two lanes' movements, merged in order of issue, are all ordered if and only if neighbours of different lanes
    are."""
    merged = sorted([*((index, 0) for index in one), *((index, 1) for index in other)], key=itemgetter(0))
    for (first, mine), (second, theirs) in pairwise(merged):
        if mine != theirs and not order.is_before(first, second):
            fact = f"may run concurrently with {where(program, first)}, and both involve ranks {shared}"
            hint = "await the end of one before the other, or use one channel"
            raise ProofError("V5b", where(program, second), fact, hint)
