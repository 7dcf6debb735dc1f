"""Matrix products by two groups of warps in turn: what is computed from a tile, for `dmc.kernels.jit.ping_pong`."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dmc.dtypes import FACTORS, NARROW
from dmc.kernels.generated.column_sums import ColumnSums
from dmc.kernels.generated.index import ZERO, Index, linearise, variable
from dmc.kernels.generated.launch import Launch, Root
from dmc.kernels.generated.pieces import Language, Piece, columns_of, pieces_of, store
from dmc.kernels.generated.reducing import finished
from dmc.kernels.generated.tiles import Tiles
from dmc.kernels.generated.value import TRITON, Value
from dmc.kernels.implementation import Candidate
from dmc.kernels.recipe import Buffer, Call, View
from dmc.kernels.turns import Turns
from dmc.program.sizes import element_bytes

_WARPS = 4
# Per thread, of all groups on average.
_REGISTERS = 168
# Bytes of shared memory for tiles, beside barriers.
_SHARED = 226 << 10
_NARROW_BYTES = 2
_LEAST_IN_FLIGHT = 3
# What is copied ahead: its types, and the alignment of its rows in bytes.
_ALIGNMENT = 16
# Of a line of source.
_WIDTH = 120
_GLUON = Language("ping_pong.halves({name})", "ping_pong.columns(like)")
# A generated line with a function stands for so many more; of a piece so many are half of the instruction cache.
_FUNCTION, _MOST_LINES = 8, 36
_COSTLY = re.compile(r"functions\.(?!widened)")
_NAMES = re.compile(r"[A-Za-z_]\w*")
_ROUNDED = re.compile(r"\.to\((tl\.(?:bfloat16|float16))\)$|functions\.nearest\(\w+\)$")
# Tiles of numbers have no place where the layout of the product is not known.
_PLACED = re.compile(r"tl\.(arange|dot|join|store)|philox|functions\.power")


def multiply(launch: Launch, tiles: Tiles, roots: Sequence[Root], chosen: Candidate, sums: ColumnSums) -> Call | None:
    """The product, and `roots` and `sums` computed from it; None where that is not stored in tiles, or needs too much
    memory."""
    if tiles.matrices is None:
        return None
    epilogue = _fitting(launch.memory, tiles, roots, chosen, sums)
    if epilogue is None:
        return None
    left, right = tiles.matrices
    turns = Turns(
        *(tiles.rows, tiles.columns, tiles.inner),
        *(tiles.count("rows"), tiles.count("columns"), tiles.steps),
        *(epilogue.in_flight(tiles, roots), epilogue.ring, tiles.programs),
        *(left.turned, right.turned),
        *(epilogue.pieces, bool(epilogue.narrow), epilogue.slots, epilogue.ahead_bytes(tiles)),
    )
    factors = left.tiles(launch, (tiles.rows, tiles.inner)), right.tiles(launch, (tiles.columns, tiles.inner))
    operands = [launch.descriptor(launch.memory[value], _view(tiles, epilogue)) for value in epilogue.ahead]
    lines = _finish(launch, tiles, roots, epilogue, sums)
    # What is copied ahead is read as if it did not change: no result may be written in its place.
    launch.emitter.loads += [(value, ZERO) for value in epilogue.ahead if epilogue.slots]
    if any(_PLACED.search(line) for line in lines):
        return None
    found = launch.parameters([*lines, *factors, *operands])
    source = _source(launch, turns, found, factors, operands, roots, lines)
    buffers, views = (tuple(each) for each in zip(*found.values(), strict=True))
    return Call(
        f"generated.{launch.name}", tiles.programs, buffers, None, _WARPS, 1, source, views, registers=_REGISTERS
    )


@dataclass(frozen=True)
class Epilogue:
    """How an epilogue is computed: in `pieces` of a tile, one after another.

    ring: tiles of each result in shared memory, for each group. sums: how many there are over rows. ahead: what it
    reads element by element, of which `slots` pieces are copied while its group multiplies. narrow: the type of 16 bits
    in which the product waits in shared memory, so that the pieces are computed in a loop; "" where each is computed
    from registers by code of its own, which may be more than the instruction cache holds.
    """

    pieces: int
    ring: int
    sums: int = 0
    ahead: tuple[Any, ...] = ()
    slots: int = 0
    narrow: str = ""

    def piece(self, tiles: Tiles) -> int:
        """The number of elements of a piece."""
        return tiles.rows * tiles.columns // self.pieces

    def ahead_bytes(self, tiles: Tiles) -> int:
        """The size of a piece of all that it reads."""
        return self.piece(tiles) * sum(_bytes(value) for value in self.ahead)

    def in_flight(self, tiles: Tiles, roots: Sequence[Root]) -> int:
        """How many tiles of both factors shared memory holds beside two groups' operands and results."""
        results = self.ring * self.piece(tiles) * sum(_bytes(root.value) for root in roots)
        product = tiles.rows * tiles.columns * _NARROW_BYTES if self.narrow else 0
        taken = 2 * (results + product + self.slots * self.ahead_bytes(tiles))
        # Warps of a group add up what each has added up.
        adding = 2 * _WARPS * element_bytes("f32") * (tiles.columns // self.pieces) if self.sums else 0
        return (_SHARED - taken - adding) // ((tiles.rows + tiles.columns) * tiles.inner * _NARROW_BYTES)


def _bytes(value: Any) -> int:
    return element_bytes(str(value.type.element_type))


def _fitting(
    memory: Mapping[Any, Buffer], tiles: Tiles, roots: Sequence[Root], chosen: Candidate, sums: ColumnSums
) -> Epilogue | None:
    """The epilogue that leaves room for enough tiles of the factors, with as much ahead as possible; None if none
    does."""
    pieces = chosen["pieces"]
    probe = Launch("probe", "", dict(memory))
    plain = Epilogue(pieces, 2 if len(roots) == 1 and pieces > 1 else 1, len(sums.reductions))
    lines = _finish(probe, tiles, roots, plain, sums)
    narrow = _rounded_to(lines) if pieces > 1 and (chosen.get("looped", 0) or _is_long(lines, pieces)) else ""
    # The product waits as the factors do.
    narrow = narrow if tiles.matrices and TRITON[str(tiles.matrices[0].value.type.element_type)] == narrow else ""
    if chosen.get("looped", 0) and not narrow:
        return None
    ahead = _read_in_tiles(probe, tiles)
    few = replace(plain, ahead=ahead, slots=min(pieces, 2) if ahead else 0)
    if narrow:
        # A loop copies ahead in turn, and has a room for each result.
        looped = [replace(each, ring=1, narrow=narrow) for each in (few, plain)]
        return next((each for each in looped if each.in_flight(tiles, roots) >= _LEAST_IN_FLIGHT), None)
    # What is copied ahead must not let the tensor cores wait for factors.
    copied = (replace(few, slots=pieces), few, replace(few, ring=1)) if ahead else ()
    found = [each for each in copied if each.in_flight(tiles, roots) > _LEAST_IN_FLIGHT]
    return next((each for each in (*found, plain) if each.in_flight(tiles, roots) >= _LEAST_IN_FLIGHT), None)


def _is_long(lines: Sequence[str], pieces: int) -> bool:
    """Whether two groups' code for all pieces is more than the instruction cache holds. A function is several lines."""
    return len(lines) + _FUNCTION * sum(bool(_COSTLY.search(line)) for line in lines) > _MOST_LINES * pieces


def _rounded_to(lines: Sequence[str]) -> str:
    """The type to which a product is rounded before anything is computed from it; "" if there is none."""
    pieces = {name for line in lines if "ping_pong.halves(" in line for name in line.split(" = ")[0].split(", ")}
    used = [line for line in lines if "ping_pong.halves(" not in line and set(_NAMES.findall(line)) & pieces]
    types = {match[1] or TRITON["bf16"] if (match := _ROUNDED.search(line)) else "" for line in used}
    return types.pop() if len(types) == 1 else ""


def _read_in_tiles(probe: Launch, tiles: Tiles) -> tuple[Any, ...]:
    """The values of which a finished epilogue reads the elements of its tile, as the copy engine can transfer them."""
    rows, columns = tiles.product.size("rows"), tiles.product.size("columns")
    row = variable("row", rows)
    found = dict[Any, None]()
    for value, number in probe.emitter.loads:
        is_element = len(number.terms) == 2 and number.constant == 0 and (row * columns).terms[0] in number.terms
        if is_element and str(value.type.element_type) in FACTORS and columns * _bytes(value) % _ALIGNMENT == 0:
            found[value] = None
    return tuple(value for value in found if math.prod(value.type.shape) == rows * columns)


def _view(tiles: Tiles, epilogue: Epilogue) -> View:
    """The pieces of a matrix such as the product."""
    rows, columns = tiles.product.size("rows"), tiles.product.size("columns")
    return View((rows, columns), (columns, 1), (tiles.rows, tiles.columns // epilogue.pieces))


def _finish(launch: Launch, tiles: Tiles, roots: Sequence[Root], epilogue: Epilogue, sums: ColumnSums) -> list[str]:
    """The lines that compute `roots` and `sums` from a tile, or from any piece of it, and store them."""
    product, writer, pieces = tiles.product, launch.writer, epilogue.pieces
    count, is_loop = product.size("rows"), bool(epilogue.narrow)
    writer.raw(f"like = ping_pong.piece(total, {1 if is_loop else pieces})")
    text = f"tile_row * {tiles.rows} + ping_pong.rows(like)"
    row = variable(launch.variable("row", text, f"{{}} < {count}" if count % tiles.rows else ""), count)
    for number, piece in _pieces(launch, tiles, epilogue):
        if epilogue.slots:
            writer.raw(f"ping_pong.wait(ahead, {number}, turn, group, SCHEDULE)")
        launch.emitter.copied = partial(_copied, tiles, epilogue, row, piece, number)
        loops = product.loops(ZERO, row, piece.place)
        places = product.reduction.result_places(loops)
        made = finished(launch, product.reduction, piece.name, row.variables | piece.place.variables, loops)
        launch.emitter.bound[product.reduction.value] = places, made
        ring = epilogue.ring
        place = "group" if ring == 1 else f"{ring} * group + {int(number) % ring}"
        waiting = len(roots) * ring - 1
        for index, root in enumerate(roots):
            text = f"ping_pong.store({{tiles}}, rooms[{index}].index({place}), [{{corner}}], {{value}}, {waiting})"
            store(launch, tiles, root, linearise(places, product.reduction.value.type.shape), row, piece, text)
        sums.leave_in_gluon(launch, tiles, row, piece)
        launch.flush()
        if epilogue.slots and (is_loop or int(number) + epilogue.slots < pieces):
            writer.raw(f"ping_pong.fetch_later(ahead, tile_row, tile_column, {number}, group, SCHEDULE)")
    return [line.replace("tl.full(", "ping_pong.full(") for line in writer.lines()]


def _pieces(launch: Launch, tiles: Tiles, epilogue: Epilogue) -> Iterator[tuple[str, Piece]]:
    """The pieces of a tile, by the texts of their numbers; of a loop the one of an iteration."""
    writer, pieces = launch.writer, epilogue.pieces
    if epilogue.narrow:
        width = tiles.columns // pieces
        piece = Piece(writer.name("product"), ZERO, f"piece * {width}", width)
        axes = frozenset(("row",))
        writer.raw(f"{piece.name} = total.to(tl.float32)")
        piece = replace(piece, place=columns_of(launch, tiles, piece, _GLUON))
        narrow = next(name for name in NARROW if TRITON[name] == epilogue.narrow)
        writer.widened[piece.name] = Value("total", narrow, narrow, axes | piece.place.variables)
        yield "piece", piece
        return
    whole = Piece(writer.name("total"), ZERO, 0, tiles.columns)
    if pieces == 1:
        whole = replace(whole, place=columns_of(launch, tiles, whole, _GLUON))
    for number, piece in enumerate(pieces_of(launch, tiles, whole, pieces, _GLUON)):
        yield str(number), piece


def _copied(
    tiles: Tiles, epilogue: Epilogue, row: Index, piece: Piece, number: str, value: Any, place: Index
) -> str | None:
    """The text of a piece of a value that is copied ahead."""
    if not epilogue.slots or value not in epilogue.ahead:
        return None
    if place != row * tiles.product.size("columns") + piece.place:
        return None
    corner = f"tile_row * {tiles.rows}, {piece.start(tiles)}"
    return f"ping_pong.read(ahead, {epilogue.ahead.index(value)}, [{corner}], {number}, group, like, SCHEDULE)"


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _source(
    launch: Launch,
    turns: Turns,
    parameters: Mapping[str, tuple[Buffer, View | None]],
    factors: tuple[str, str],
    operands: Sequence[str],
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
def {launch.name}_finish(total, tile_row, tile_column, memory, rooms, ahead, turn, group, piece):
    {memory} = memory
{body}


@ping_pong.jit
def {launch.name}({", ".join(parameters)}):
    """{launch.title}"""
    results = {_tuple(results)}
    operands = {_tuple(operands)}
    ping_pong.multiply({", ".join(factors)}, {memory}, results, operands, {launch.name}_finish, SCHEDULE)
'''
