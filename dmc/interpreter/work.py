"""The memory effects of a command, in steps between which others may run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np

from dmc.dtypes import Array
from dmc.interpreter.interleaving import Task
from dmc.interpreter.memory import Memory
from dmc.interpreter.movements import check_alike, deliver
from dmc.program import Collective, Range


def compute(
    memory: Memory,
    reads: Sequence[Range],
    writes: Sequence[Range],
    scratch: Range | None,
    results: Callable[[], Sequence[Array]],
) -> Task:
    """Work of one rank: `results` reads its operands when called, and returns what is written to `writes`.

    A command may write to its targets at any time from start to end, so they contain noise; an in-place target, from
    when it was read. Scratch also contains noise, and if something else wrote to it, results are noise.
    """
    memory.spoil(target for target in writes if target not in reads)
    own = memory.spoil(_listed(scratch))
    yield None
    arrays = results()
    memory.spoil(writes)
    yield None
    if all(np.array_equal(memory.view(range_), noise) for range_, noise in zip(_listed(scratch), own, strict=True)):
        for target, array in zip(writes, arrays, strict=True):
            memory.write(target, array)
    memory.spoil(_listed(scratch))


def move_between(
    members: Sequence[int], parts: Mapping[int, Collective], memories: Sequence[Memory], random: Random
) -> Task:
    """A movement between ranks that all of `members` have reached. Sources are read one by one, in any order.

    Raises DmcError if members disagree, or sizes do not match.
    """
    check_alike(parts)
    for rank in members:
        source, target = parts[rank].source, parts[rank].target
        memories[rank].spoil(_listed(None if target == source else target))
    held: dict[int, Array] = {}
    for rank in random.sample(list(members), len(members)):
        yield None
        for source in _listed(parts[rank].source):
            held[rank] = memories[rank].read(source, parts[rank].dtype)
    results = deliver(parts[members[0]], [held[rank] for rank in members if rank in held])
    targets = [(memories[rank], target) for rank in members for target in _listed(parts[rank].target)]
    for memory, target in targets:
        memory.spoil([target])
    yield None
    for (memory, target), result in zip(targets, results, strict=True):
        memory.write(target, result)


def _listed(given: Range | None) -> list[Range]:
    return [] if given is None else [given]
