"""Reductions over rows, and sums over all rows of what comes of them, as the gradients of a normalisation's weights.

A program takes several rows, one after another, and adds up columns of its own; then the programs' sums are added up.
So that what is read for a row need not be read again. The order is fixed: equal input gives equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmc.kernels.generated.index import variable
from dmc.kernels.generated.launch import Launch, Root, power_of_two, zeros
from dmc.kernels.generated.reducing import Reduction, tile_of
from dmc.kernels.generated.rows import Rows
from dmc.kernels.generated.split import Sharing
from dmc.kernels.generated.value import Value
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Buffer, Call
from dmc.kernels.row_sums import PROGRAMS, is_across, programs_of

_SUM, _HELD = "arith.addf", "f32"


def are_of_rows(reductions: Sequence[Reduction], sums: Sequence[Reduction]) -> bool:
    """Whether `reductions` are over the rows of one matrix, and `sums` over its columns."""
    loops = reductions[0].loops
    across = (True, loops.kept), (False, loops.depth)
    return (
        loops.signature == ((False, loops.kept), (True, loops.depth))
        and is_across((loops.kept, loops.depth), (loops.depth, loops.kept))
        and all(each.loops.signature == loops.signature for each in reductions)
        and all((each.loops.signature, each.name, each.held) == (across, _SUM, _HELD) for each in sums)
    )


def candidates(width: int) -> tuple[Candidate, ...]:
    """The candidates for rows of `width` elements."""
    block = power_of_two(width)
    some, more, few = PROGRAMS, 2 * PROGRAMS, PROGRAMS // 2
    # Warps, programs and stages.
    sizes = ((4, some, 2), (4, more, 1), (2, more, 1), (2, more, 2), (4, some, 1), (4, some, 3), (8, few, 2))
    return tuple(candidate(warps, stages, block=block, programs=programs) for warps, programs, stages in sizes)


def sharing(reductions: Sequence[Reduction], sums: Sequence[Reduction], chosen: Candidate) -> Sharing:
    """The partition of the sums' work: each program makes a part of all."""
    rows = reductions[0].loops.kept
    programs = programs_of(rows, chosen["programs"])
    return Sharing(sums[0].loops, power_of_two(sums[0].loops.kept), 1, rows // programs, programs)


def rows_and_sums(
    launch: Launch,
    roots: Sequence[Root],
    reductions: Sequence[Reduction],
    chosen: Candidate,
    sums: Sequence[Reduction],
    parts: Sequence[Buffer],
) -> Call:
    """Computes `roots`, each with one element per row or per element of the rows, and the programs' parts of `sums`,
    f32[programs, columns] each."""
    writer, loops = launch.writer, reductions[0].loops
    share = sharing(reductions, sums, chosen)
    program = variable(launch.variable("program", "tl.program_id(0)"), share.splits)
    taken = Rows(launch, chosen["block"], 1, loops.kept, loops.depth)
    totals = [writer.name(f"{each.stem()}s") for each in sums]
    for name, each in zip(totals, sums, strict=True):
        writer.raw(f"{name} = {zeros(taken.shape, each.neutral, each.held)}")
    row = writer.name("row")
    launch.reads_ahead = chosen.stages > 1
    ahead = f", num_stages={chosen.stages}" if launch.reads_ahead else ""
    with writer.loop(f"for step in tl.range(0, {share.steps}{ahead}):", row):
        # From the last to the first, as other kernels over rows.
        launch.declare(row, "row", f"{loops.kept - 1} - program - step * {share.splits}", "")
        taken.row = variable(row, loops.kept)
        taken.reduce(reductions)
        taken.store(roots)
        for name, each in zip(totals, sums, strict=True):
            value = each.contribution(launch.emitter, each.loops.places(taken.column, taken.row))
            # Columns out of range are added up, but not stored.
            tile = tile_of(launch, each, value, taken.shape, taken.column.variables, frozenset())
            writer.raw(f"{name} = {each.combiner.join.format(name, tile)}")
        launch.flush()
    for name, each, part in zip(totals, sums, parts, strict=True):
        number = program * loops.depth + taken.column
        launch.leave(part, number, Value(name, each.dtype, each.held, number.variables))
    return launch.call(share.splits, chosen.warps, 1)
