"""V5b: collectives that share two ranks or more never run at the same time."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise
from operator import itemgetter

from dmc.errors import ProofError
from dmc.program import Class, Collective, Command, Job, Program
from dmc.program.collectives import members_of
from dmc.proof.instances import collectives
from dmc.proof.order import Order
from dmc.proof.story import where


def check_communicators(job: Job, orders: tuple[Order, ...]) -> None:
    """Raises ProofError for two movements that share two ranks, one of which does not order them.

    Two communicators over the same devices may hang when both are active, even where every rank issues them in one
    order, because nothing makes the devices start them in that order. So on each rank that two movements share, one
    must end before the other begins. V5 has checked that the ranks agree on which.
    """
    for own, order in zip(job.classes, orders, strict=True):
        chains: dict[tuple[int, frozenset[int]], list[int]] = defaultdict(list)
        for index, command in collectives(own.program):
            chains[command.lane, _members(own.program.rank, command)].append(index)
        members = {chain: _of_all_ranks(job, own, indices[0]) for chain, indices in chains.items()}
        for one, other in combinations(chains, 2):
            pairs = () if one[0] == other[0] else zip(members[one], members[other], strict=True)
            if shared := next((mine & others for mine, others in pairs if len(mine & others) > 1), None):
                _check(own.program, order, sorted(shared), chains[one], chains[other])


def _members(rank: int, command: Command) -> frozenset[int]:
    assert isinstance(command, Collective), "only movements have members"
    return frozenset(members_of(rank, command))


def _of_all_ranks(job: Job, own: Class, index: int) -> list[frozenset[int]]:
    """The members of a movement of each rank of a class."""
    command = own.program.commands[index]
    return [_members(rank, job.member(own, rank).command(command)) for rank in own.ranks]


def _check(program: Program, order: Order, shared: list[int], one: list[int], other: list[int]) -> None:
    """Two lanes' movements, merged in order of issue, are all ordered if and only if neighbours of different lanes
    are."""
    merged = sorted([*((index, 0) for index in one), *((index, 1) for index in other)], key=itemgetter(0))
    for (first, mine), (second, theirs) in pairwise(merged):
        if mine != theirs and not order.is_before(first, second):
            fact = f"may run concurrently with {where(program, first)}, and both involve ranks {shared}"
            hint = "await the end of one before the other, or use one channel"
            raise ProofError("V5b", where(program, second), fact, hint)
