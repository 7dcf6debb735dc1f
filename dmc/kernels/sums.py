"""Sums of partial results: the second stage of every reduction split over programs."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.kernels.recipe import Buffer, Call


@dataclass(frozen=True)
class SumShape:
    """The sum over `rows` of f32 [rows, width], by tiles."""

    rows: int
    width: int
    block_rows: int
    block_width: int


def sum_of_rows(parts: Buffer, out: Buffer, rows: int, width: int) -> Call:
    """Adds up the rows of `parts`, f32 [rows, width]."""
    # Tall tiles keep many loads in flight, even if few columns give few programs.
    block_rows = min(128, 1 << (rows - 1).bit_length())
    shape = SumShape(rows, width, block_rows, block_width=16 if block_rows > 16 else 128)
    return Call("sums.columns", -(-width // shape.block_width), (parts, out), shape)
