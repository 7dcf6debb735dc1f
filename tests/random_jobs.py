"""Random legal jobs: several ranks and lanes, memory that is used again, and the events that this needs.

A step is made of values in storages: kernels that compute new ones, some in place; collectives on several channels;
buckets with padding between their members; messages between neighbours; slices that differ by rank. All that is
computed ends in the state or in the one output, so that damage shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, pairwise
from random import Random

from msgspec.structs import replace

from dmc.analysis.commands.events import Edge, needed_edges, with_events
from dmc.program import (
    Await,
    Class,
    Command,
    Job,
    Launch,
    Program,
    Range,
    Record,
    Slice,
    accesses,
)
from dmc.program.program import Space
from tests.job_memory import Piece
from tests.random_job_steps import MESHES, RandomStep, Step


def random_job(seed: int, length: int = 8) -> Job:
    """A legal job, the same for the same arguments; it grows with `length`."""
    random = Random(seed)
    step = RandomStep(random, random.choice(MESHES))
    step.draw(length)
    arenas = step.storages.place(len(step.steps))
    ranks: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for rank in step.mesh.ranks:
        ranks[tuple(step.mesh.coordinates(rank)[axis] for axis in step.stages)].append(rank)
    ordered = [with_events(_program(step, rank, arenas), _take_turns(step)) for rank in step.mesh.ranks]
    needed = needed_edges(_together(ordered))
    classes = (Class(tuple(each), with_events(ordered[each[0]], needed)) for each in ranks.values())
    return Job(dict(step.sizes), step.channels, step.kernels, tuple(classes), step.stages)


def _together(programs: Sequence[Program]) -> Program:
    """A program whose commands touch what those of any of these do."""
    commands: list[Command] = []
    for each in zip(*(program.commands for program in programs), strict=True):
        reads, writes = (tuple({*chain(*side)}) for side in zip(*map(accesses, each), strict=True))
        is_event = isinstance(each[0], Record | Await)
        commands.append(each[0] if is_event else Launch(each[0].lane, "", reads, writes))
    return replace(programs[0], commands=tuple(commands), buffers=())


def _program(step: RandomStep, rank: int, arenas: dict[Space, int]) -> Program:
    def ranges(pieces: Sequence[Piece]) -> list[Range]:
        return [step.storages.range_of(piece, step.mesh, rank) for piece in pieces]

    def command(each: Step) -> Command:
        made = each.make(rank, ranges(each.reads), ranges(each.writes))
        if isinstance(made, Record | Await):
            return made
        axes = {i: [axis for axis in piece.axes if axis not in step.stages] for i, piece in enumerate(each.reads)}
        slices = (Slice(i, {own[0]: each.reads[i].length}) for i, own in axes.items() if own)
        return replace(made, slices=tuple(slices))

    commands = tuple(map(command, step.steps))
    return Program(rank, arenas, step.lanes, step.storages.slots(), commands, step.storages.buffers())


def _take_turns(step: RandomStep) -> list[Edge]:
    """Collectives of channels that share two ranks or more run one after another."""
    edges: list[Edge] = []
    whole = len(step.channels) - 1
    for other in range(whole):
        lanes = (3 + whole, 3 + other)
        turns = [index for index, each in enumerate(step.steps) if each.lane in lanes]
        pairs = [pair for pair in pairwise(turns) if step.steps[pair[0]].lane != step.steps[pair[1]].lane]
        edges += [Edge(first, second) for first, second in pairs]
    return edges
