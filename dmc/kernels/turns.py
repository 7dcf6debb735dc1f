"""The static parameters of a product by two groups of warps in turn (`dmc.kernels.jit.ping_pong`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Turns:
    """Tiles of `rows` × `columns` elements, `down` × `across` of them, each in `steps` along the depth, `inner` deep.

    in_flight: tiles of both factors in shared memory. ring: tiles of each result there, for each group. programs: how
    many there are. first_turned, second_turned: whether the depth is the first dimension of a factor in memory. pieces:
    of a tile, which the epilogue computes one after another. looped: whether in a loop, from shared memory. ahead: how
    many pieces of what it reads are in shared memory, for each group; 0 where it reads nothing in tiles. ahead_bytes:
    of such a piece.
    """

    rows: int
    columns: int
    inner: int
    down: int
    across: int
    steps: int
    in_flight: int
    ring: int
    programs: int
    first_turned: bool
    second_turned: bool
    pieces: int
    looped: bool = False
    ahead: int = 0
    ahead_bytes: int = 0
