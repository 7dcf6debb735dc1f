"""Reductions in which many programs share each result: partial results in scratch memory, then their reduction.

The order is fixed, so that equal input gives equal bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dmc.kernels.generated.index import Index, variable
from dmc.kernels.generated.launch import Launch, Root, power_of_two, zeros
from dmc.kernels.generated.reducing import Reduction, finished, reduce_tile, tile_of
from dmc.kernels.generated.structure import Loops
from dmc.kernels.generated.value import Value
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Buffer, Call

_CANDIDATES = (
    candidate(tile=4096, kept=64, programs=528, warps=4),
    candidate(tile=4096, kept=128, programs=1056, warps=8),
    candidate(tile=2048, kept=32, programs=528, warps=4),
)
# Where what is summed is a result, too, and so is written.
_OF_RESULTS = (
    candidate(tile=2048, kept=128, programs=2112, warps=4),
    candidate(tile=4096, kept=128, programs=528, warps=4),
    candidate(tile=4096, kept=128, programs=1056, warps=8),
)
# Where there are so many results that no sum is shared: threads add up columns of their own.
_OF_MANY = (
    candidate(tile=2048, kept=256, programs=528, warps=4),
    candidate(tile=4096, kept=512, programs=528, warps=4),
    candidate(tile=1024, kept=256, programs=528, warps=4),
)
_MANY, _DEEP = 1 << 16, 32
_LANES = 16


def candidates(loops: Loops, elements: Sequence[Root]) -> tuple[Candidate, ...]:
    """The ways to share these loops, the most promising first. elements: roots computed per element in addition."""
    if elements:
        return _OF_RESULTS
    is_many = not loops.is_by_rows and loops.kept >= _MANY and loops.depth >= _DEEP
    return (*_OF_MANY, *_CANDIDATES) if is_many else _CANDIDATES


@dataclass(frozen=True)
class Sharing:
    """The partition of work: `splits` programs per tile of `kept` results make `steps` steps of `depth`."""

    loops: Loops
    kept: int
    depth: int
    steps: int
    splits: int

    @staticmethod
    def of(loops: Loops, chosen: Candidate) -> Sharing:
        """The sharing for these loops; neighbours in memory are neighbours in a tile."""
        if loops.is_by_rows:
            depth = min(power_of_two(loops.depth), chosen["tile"] // 2)
            kept = min(power_of_two(loops.kept), max(1, chosen["tile"] // depth))
        else:
            # Shallow reductions have more results in a tile.
            shallow = chosen["tile"] // power_of_two(loops.depth)
            kept = min(power_of_two(loops.kept), max(chosen["kept"], shallow))
            depth = min(power_of_two(loops.depth), chosen["tile"] // kept)
        tiles = -(-loops.kept // kept)
        wanted = max(1, min(-(-chosen["programs"] // tiles), -(-loops.depth // depth)))
        steps = _even(-(-loops.depth // depth), -(-loops.depth // (depth * wanted)))
        return Sharing(loops, kept, depth, steps, -(-loops.depth // (depth * steps)))

    @property
    def programs(self) -> int:
        """How many programs there are."""
        return -(-self.loops.kept // self.kept) * self.splits

    @property
    def axis(self) -> int | None:
        """The axis of a tile that is reduced; None where there is one result."""
        return None if self.loops.kept == 1 else int(self.loops.is_by_rows)

    @property
    def shape(self) -> str:
        """The shape of a tile."""
        return f"[{self.kept}, {self.depth}]" if self.loops.is_by_rows else f"[{self.depth}, {self.kept}]"

    def kept_range(self) -> str:
        """The places of results in a tile."""
        return f"tl.arange(0, {self.kept})" + ("[:, None]" if self.loops.is_by_rows else "[None, :]")

    def depth_range(self) -> str:
        """The places along the reduced axis of a tile."""
        return f"tl.arange(0, {self.depth})" + ("[None, :]" if self.loops.is_by_rows else "[:, None]")


def _even(tiles: int, steps: int) -> int:
    """About this many steps, if possible equal for every program: then nothing needs a mask."""
    even = max(each for each in range(1, steps + 1) if tiles % each == 0)
    return even if 2 * even > steps else steps


def partial(
    launch: Launch, share: Sharing, reductions: Sequence[Reduction], elements: Sequence[Root]
) -> tuple[list[str], Index, Index]:
    """Writes the loops; returns the names of the resulting tiles, and the variables of results and of splits.

    elements: roots computed per element in addition.
    """
    writer = launch.writer
    kept, split = _programs(launch, share)
    sums = [writer.name(f"{each.stem()}s") for each in reductions]
    for name, each in zip(sums, reductions, strict=True):
        writer.raw(f"{name} = {zeros(share.shape, each.neutral, each.held)}")
    inner = writer.name("inner")
    whole = share.depth * share.steps * share.splits == share.loops.depth
    with writer.loop(f"for step in range(0, {share.steps}):", inner):
        first = f"({writer.index(split)} * {share.steps} + step)" if split.terms else "step"
        text = f"{first} * {share.depth} + {share.depth_range()}"
        launch.declare(inner, "inner", text, "" if whole else f"{{}} < {share.loops.depth}")
        reduced = variable(inner, share.loops.depth)
        for name, each in zip(sums, reductions, strict=True):
            value = each.contribution(launch.emitter, each.loops.places(kept, reduced))
            axes = kept.variables | reduced.variables
            tile = tile_of(launch, each, value, share.shape, axes, reduced.variables)
            writer.raw(f"{name} = {each.combiner.join.format(name, tile)}")
        for root in elements:
            launch.root(root, share.loops.number(kept, reduced))
        launch.flush()
    return sums, kept, split


def _programs(launch: Launch, share: Sharing) -> tuple[Index, Index]:
    """The variables of results and of splits."""
    tiles = -(-share.loops.kept // share.kept)
    program = "tl.program_id(0)"
    if share.splits > 1:
        launch.variable("split", f"{program} // {tiles}" if tiles > 1 else program)
        program = f"({program} % {tiles})"
    mask = f"{{}} < {share.loops.kept}" if share.loops.kept % share.kept else ""
    if share.loops.kept > 1:
        first = f"{program} * {share.kept} + " if tiles > 1 else ""
        launch.variable("place", f"{first}{share.kept_range()}", mask)
    return variable("place", share.loops.kept), variable("split", share.splits)


def bind(launch: Launch, share: Sharing, reductions: Sequence[Reduction], sums: Sequence[str], kept: Index) -> None:
    """Binds the results of the reductions, from complete tiles."""
    for name, each in zip(sums, reductions, strict=True):
        total = reduce_tile(launch, each, name, share.axis, kept.variables)
        loops = each.loops.places(kept, variable("none", 1))
        made = finished(launch, each, total, kept.variables, loops)
        launch.emitter.bound[each.value] = each.result_places(loops), made


def leave(
    launch: Launch,
    share: Sharing,
    reductions: Sequence[Reduction],
    sums: Sequence[str],
    places: tuple[Index, Index],
    parts: Sequence[Buffer],
) -> None:
    """Stores the partial results, [splits, results] for each reduction."""
    kept, split = places
    for name, each, part in zip(sums, reductions, parts, strict=True):
        total = reduce_tile(launch, each, name, share.axis, kept.variables | split.variables)
        launch.store(part, split * share.loops.kept + kept, Value(total, each.dtype, each.held, kept.variables))


def finish(
    launch: Launch, share: Sharing, reductions: Sequence[Reduction], roots: Sequence[Root], parts: Sequence[Buffer]
) -> Call:
    """The second launch: the results from their parts, and values computed from them."""
    writer, count = launch.writer, share.loops.kept
    splits = power_of_two(share.splits)
    lanes = min(power_of_two(count), max(1, _LANES if splits > 4 else 256))
    mask = f"{{}} < {count}" if count % lanes else ""
    first = f"tl.program_id(0) * {lanes} + " if count > lanes else ""
    if count > 1:
        launch.variable("place", f"{first}tl.arange(0, {lanes})[None, :]", mask)
    launch.variable(
        "split", f"tl.arange(0, {splits})[:, None]", f"{{}} < {share.splits}" if share.splits % splits else ""
    )
    kept, split = variable("place", count), variable("split", share.splits)
    for each, part in zip(reductions, parts, strict=True):
        number = split * count + kept
        masks = " & ".join(writer.mask(number.variables))
        masked = f", mask={masks}, other={each.neutral}" if masks else ""
        stem = f"part{part.index}"
        tile = writer.line(stem, f"tl.load({stem}_at + {writer.index(number)}{masked})", number.variables)
        total = reduce_tile(launch, each, tile, None if count == 1 else 0, kept.variables)
        loops = each.loops.places(kept, variable("none", 1))
        launch.emitter.bound[each.value] = (
            each.result_places(loops),
            finished(launch, each, total, kept.variables, loops),
        )
    for root in roots:
        launch.root(root, kept)
    launch.reads += parts
    return launch.call(-(-count // lanes), 4, 1)


def is_full(root: Root, share: Sharing) -> bool:
    """Whether a root has an element per iteration, not per result."""
    return math.prod(root.shape) != share.loops.kept
