"""Matrix products by two groups of warps in turn: what is computed from a tile, for `dmc.kernels.jit.ping_pong`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from dmc.kernels.generated.index import ZERO, linearise, variable
from dmc.kernels.generated.launch import Launch, Root
from dmc.kernels.generated.pieces import Language, Piece, columns_of, pieces_of, store
from dmc.kernels.generated.reducing import finished
from dmc.kernels.generated.tiles import Tiles
from dmc.kernels.problem import ITEM_BYTES
from dmc.kernels.recipe import Buffer, Call, View
from dmc.kernels.turns import Turns

_WARPS = 4
# Per thread, of all groups on average.
_REGISTERS = 168
# Bytes of shared memory for tiles, beside barriers.
_SHARED = 226 << 10
_NARROW_BYTES = 2
_LEAST_IN_FLIGHT = 3
# Of a line of source.
_WIDTH = 120
_GLUON = Language("ping_pong.halves({name})", "ping_pong.columns(like)")
# Tiles of numbers have no place where the layout of the product is not known.
_PLACED = re.compile(r"tl\.(arange|dot|join|store)|philox|functions\.power")


def multiply(launch: Launch, tiles: Tiles, roots: Sequence[Root], pieces: int) -> Call | None:
    """The product, and `roots` computed from it; None where that is not stored in tiles, or needs too much memory."""
    ring = 2 if len(roots) == 1 and pieces > 1 else 1
    in_flight = _in_flight(tiles, roots, pieces, ring)
    if in_flight < _LEAST_IN_FLIGHT or tiles.matrices is None:
        return None
    left, right = tiles.matrices
    turns = Turns(
        *(tiles.rows, tiles.columns, tiles.inner),
        *(tiles.count("rows"), tiles.count("columns"), tiles.steps),
        *(in_flight, ring, tiles.programs),
        *(left.turned, right.turned),
    )
    factors = left.tiles(launch, (tiles.rows, tiles.inner)), right.tiles(launch, (tiles.columns, tiles.inner))
    lines = _finish(launch, turns, tiles, roots, pieces)
    if any(_PLACED.search(line) for line in lines):
        return None
    found = launch.parameters([*lines, *factors])
    source = _source(launch, turns, found, factors, roots, lines)
    buffers, views = (tuple(each) for each in zip(*found.values(), strict=True))
    return Call(
        f"generated.{launch.name}", tiles.programs, buffers, None, _WARPS, 1, source, views, registers=_REGISTERS
    )


def _in_flight(tiles: Tiles, roots: Sequence[Root], pieces: int, ring: int) -> int:
    """How many tiles of both factors shared memory holds beside two groups' results."""
    items = sum(ITEM_BYTES[str(root.value.type.element_type)] for root in roots)
    staged = 2 * ring * tiles.rows * (tiles.columns // pieces) * items
    return (_SHARED - staged) // ((tiles.rows + tiles.columns) * tiles.inner * _NARROW_BYTES)


def _finish(launch: Launch, turns: Turns, tiles: Tiles, roots: Sequence[Root], pieces: int) -> list[str]:
    """The lines that compute `roots` from a tile, and store them."""
    product, writer = tiles.product, launch.writer
    count = product.size("rows")
    writer.raw(f"like = ping_pong.piece(total, {pieces})")
    text = f"tile_row * {tiles.rows} + ping_pong.rows(like)"
    row = variable(launch.variable("row", text, f"{{}} < {count}" if count % tiles.rows else ""), count)
    whole = Piece(writer.name("total"), ZERO, 0, tiles.columns)
    if pieces == 1:
        whole = Piece(whole.name, columns_of(launch, tiles, whole, _GLUON), 0, tiles.columns)
    for number, piece in enumerate(pieces_of(launch, tiles, whole, pieces, _GLUON)):
        loops = product.loops(ZERO, row, piece.place)
        places = product.reduction.result_places(loops)
        made = finished(launch, product.reduction, piece.name, row.variables | piece.place.variables, loops)
        launch.emitter.bound[product.reduction.value] = places, made
        place = "group" if turns.ring == 1 else f"{turns.ring} * group + {number % turns.ring}"
        waiting = len(roots) * turns.ring - 1
        for index, root in enumerate(roots):
            text = f"ping_pong.store({{tiles}}, rooms[{index}].index({place}), [{{corner}}], {{value}}, {waiting})"
            store(launch, tiles, root, linearise(places, product.reduction.value.type.shape), row, piece, text)
        launch.flush()
    return [line.replace("tl.full(", "ping_pong.full(") for line in writer.lines()]


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _source(
    launch: Launch,
    turns: Turns,
    parameters: Mapping[str, tuple[Buffer, View | None]],
    factors: tuple[str, str],
    roots: Sequence[Root],
    lines: Sequence[str],
) -> str:
    """The module of a kernel."""
    functions = "functions, " if any("functions." in line for line in lines) else ""
    memory = _tuple(list(launch.parameters(lines)))
    stored = [root.buffer for root in roots]
    results = sorted(
        (name for name in parameters if parameters[name][0] in stored),
        key=lambda name: stored.index(parameters[name][0]),
    )
    body = "\n".join("    " + line for line in lines)
    return f'''import triton.language as tl

from dmc.kernels.jit import {functions}ping_pong
from dmc.kernels.turns import Turns

SCHEDULE = ping_pong.constexpr(
{textwrap.fill(str(turns), _WIDTH, initial_indent="    ", subsequent_indent="    ")}
)


@ping_pong.jit
def {launch.name}_finish(total, tile_row, tile_column, memory, rooms, group):
    {memory} = memory
{body}


@ping_pong.jit
def {launch.name}({", ".join(parameters)}):
    """{launch.title}"""
    results = {_tuple(results)}
    ping_pong.multiply({", ".join(factors)}, {memory}, results, {launch.name}_finish, SCHEDULE)
'''
