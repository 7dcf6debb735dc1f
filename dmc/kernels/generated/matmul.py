"""Matrix products: tiles on tensor cores, with an epilogue computed in registers.

Deep products with few tiles are split along their depth: partial products in scratch memory, summed in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmc.dtypes import NARROW
from dmc.kernels.generated.arithmetic import full, held_as
from dmc.kernels.generated.column_sums import ColumnSums
from dmc.kernels.generated.index import ZERO, Index, delinearise, linearise, variable
from dmc.kernels.generated.launch import Launch, Root, zeros
from dmc.kernels.generated.pieces import TRITON, Piece, pieces_of, store
from dmc.kernels.generated.pointwise import flat
from dmc.kernels.generated.products import Product
from dmc.kernels.generated.reducing import finished
from dmc.kernels.generated.steps import accumulate
from dmc.kernels.generated.tiles import Tiles
from dmc.kernels.generated.value import Declined, Value
from dmc.kernels.implementation import Candidate
from dmc.kernels.recipe import Buffer, Call

_GROUP = 8


def multiply(
    launch: Launch,
    tiles: Tiles,
    roots: Sequence[Root],
    part: Buffer | None,
    chosen: Candidate,
    sums: ColumnSums = ColumnSums(),
) -> Call:
    """The product, and `roots` and `sums` computed from it; or, if it is split, its partial sums in `part`."""
    assert tiles.groups == 1
    if not tiles.resident:
        launch.writer.raw("program = tl.program_id(0)")
        _one_tile(launch, tiles, roots, part, chosen["pieces"], sums)
        return launch.call(tiles.programs, chosen.warps, chosen.stages)
    head = f"for program in tl.range(tl.program_id(0), {tiles.total}, {tiles.programs}, flatten=True):"
    with launch.writer.loop(head, "program"):
        _one_tile(launch, tiles, roots, part, chosen["pieces"], sums)
    return launch.call(tiles.programs, chosen.warps, chosen.stages)


def _one_tile(
    launch: Launch, tiles: Tiles, roots: Sequence[Root], part: Buffer | None, pieces: int, sums: ColumnSums
) -> None:
    product, writer = tiles.product, launch.writer
    batch, row, column, split = _programs(launch, tiles)
    total = writer.name("total")
    writer.raw(f"{total} = {zeros(f'[{tiles.rows}, {tiles.columns}]', '0.0', 'f32')}")
    _accumulate(launch, tiles, total, batch, split)
    for piece in pieces_of(launch, tiles, Piece(total, column, 0, tiles.columns), pieces, TRITON):
        loops = product.loops(batch, row, piece.place)
        places = product.reduction.result_places(loops)
        number = linearise(places, product.reduction.value.type.shape)
        variables = row.variables | piece.place.variables
        if part is not None:
            launch.store(part, split * _elements(product) + number, Value(piece.name, "f32", "f32", variables))
        else:
            made = finished(launch, product.reduction, piece.name, variables, loops)
            launch.emitter.bound[product.reduction.value] = places, made
        for root in roots if part is None else ():
            store(launch, tiles, root, number, row, piece)
        sums.leave(launch, tiles, row, piece)
        launch.flush()


def add_up(launch: Launch, tiles: Tiles, roots: Sequence[Root], part: Buffer) -> Call:
    """The second launch of a split product: the sum of its parts, in order, and `roots` computed from it."""
    product, writer = tiles.product, launch.writer
    place, programs = flat(launch, _elements(product), 1024)
    total = ""
    for split in range(tiles.splits):
        masks = " & ".join(writer.mask(place.variables))
        address = writer.index(place + split * _elements(product))
        text = f"tl.load(part{part.index}_at + {address}{f', mask={masks}' if masks else ''})"
        piece = writer.line(f"part{part.index}", text, place.variables)
        total = writer.line("total", f"{total} + {piece}", place.variables) if total else piece
    reduction = product.reduction
    places = delinearise(place, reduction.value.type.shape)
    made = finished(launch, reduction, total, place.variables, _loops_at(product, places))
    launch.emitter.bound[reduction.value] = places, made
    launch.reads.append(part)
    for root in roots:
        launch.root(root, place)
    return launch.call(programs, 4, 1)


def parts_type(tiles: Tiles) -> tuple[int, ...]:
    """The shape of the partial products."""
    return (tiles.splits, *tiles.product.reduction.value.type.shape)


def _elements(product: Product) -> int:
    return product.size("batches") * product.size("rows") * product.size("columns")


def _loops_at(product: Product, places: Sequence[Index]) -> tuple[Index, ...]:
    """The loops of an element of the product, where its initial value is read."""
    loops = [ZERO] * len(product.reduction.loops.sizes)
    for place, dim in zip(places, product.result_dims(), strict=True):
        if dim is not None:
            loops[dim] = place
    return tuple(loops)


def _programs(launch: Launch, tiles: Tiles) -> tuple[Index, Index, Index, Index]:
    """Declares a program's batch, rows, columns and part of the depth.

    Concurrent programs share rows and columns, so that these are found in the cache.
    """
    writer, product = launch.writer, tiles.product
    batches, down, across = product.size("batches"), tiles.count("rows"), tiles.count("columns")
    rest = "program"
    for name, count in (("batch", batches), ("split", tiles.splits)):
        if count > 1:
            per = tiles.total // batches if name == "batch" else down * across
            launch.variable(name, f"{rest} // {per}")
            rest = writer.line("rest", f"{rest} % {per}", frozenset(("program",)))
    group = min(_GROUP, down)
    writer.raw(f"group = {rest} // {group * across}")
    height = f"tl.minimum({down} - group * {group}, {group})" if down % group else str(group)
    writer.raw(f"height = {height}")
    writer.raw(f"tile_row = group * {group} + {rest} % {group * across} % height")
    writer.raw(f"tile_column = {rest} % {group * across} // height")
    for name, kind, size, place in (
        ("row", "rows", tiles.rows, "[:, None]"),
        ("column", "columns", tiles.columns, "[None, :]"),
    ):
        count = product.size(kind)
        launch.variable(
            name, f"tile_{name} * {size} + tl.arange(0, {size}){place}", f"{{}} < {count}" if count % size else ""
        )
    return (
        variable("batch", batches),
        variable("row", product.size("rows")),
        variable("column", product.size("columns")),
        variable("split", tiles.splits),
    )


def _accumulate(launch: Launch, tiles: Tiles, total: str, batch: Index, split: Index) -> None:
    """The loop along the depth."""
    if tiles.corners is not None:
        accumulate(launch, tiles.corners, total, split, tiles.splits)
        return
    product, writer = tiles.product, launch.writer
    row, column = variable("row", product.size("rows")), variable("column", product.size("columns"))
    depth = product.size("depth")
    with writer.loop(f"for step in range(0, {tiles.steps}):", "inner", "inner_down"):
        first = f"({writer.index(split)} * {tiles.steps} + step)" if split.terms else "step"
        if tiles.matrices is not None:
            _accumulate_copied(launch, tiles, total, f"{first} * {tiles.inner}")
            return
        for name, place in (("inner", "[None, :]"), ("inner_down", "[:, None]")):
            mask = f"{{}} < {depth}" if depth % (tiles.inner * tiles.splits) else ""
            launch.variable(name, f"{first} * {tiles.inner} + tl.arange(0, {tiles.inner}){place}", mask)
        inner, down = variable("inner", depth), variable("inner_down", depth)
        first_value = _factor(launch, product, product.first, product.loops(batch, row, ZERO, inner))
        second_value = _factor(launch, product, product.second, product.loops(batch, ZERO, column, down))
        left, right, precision = _as_operands(launch, first_value, second_value)
        left = _tile_of(launch, left, first_value, (row, inner), f"[{tiles.rows}, {tiles.inner}]")
        right = _tile_of(launch, right, second_value, (column, down), f"[{tiles.inner}, {tiles.columns}]")
        writer.raw(f"{total} = tl.dot({left}, {right}, {total}{precision})")


def _accumulate_copied(launch: Launch, tiles: Tiles, total: str, depth: str) -> None:
    """One iteration along the depth, from index `depth` on, with copied tiles of the factors."""
    assert tiles.matrices is not None
    first, second = tiles.matrices
    left = first.load(launch, (tiles.rows, tiles.inner), (f"tile_row * {tiles.rows}", depth))
    right = second.load(launch, (tiles.columns, tiles.inner), (f"tile_column * {tiles.columns}", depth), turn=True)
    launch.writer.raw(f"{total} = tl.dot({left}, {right}, {total})")


def _factor(launch: Launch, product: Product, number: int, loops: tuple[Index, ...]) -> Value:
    value, places = product.factor(number, loops)
    return launch.emitter.emit(value, places)


def _as_operands(launch: Launch, first: Value, second: Value) -> tuple[str, str, str]:
    """The operands in a type that `tl.dot` accepts: widened ones in their narrow type."""
    narrow = [launch.writer.widened.get(each.text, each) for each in (first, second)]
    if narrow[0].held == narrow[1].held and narrow[0].held in NARROW:
        return full(launch.writer, narrow[0], narrow[0].held), full(launch.writer, narrow[1], narrow[1].held), ""
    if "f64" in (first.held, second.held):
        raise Declined("a product of 64-bit numbers")
    texts = [
        held_as(launch.writer, each, "f32") if each.constant is None else full(launch.writer, each, "f32")
        for each in (first, second)
    ]
    return texts[0], texts[1], ', input_precision="ieee"'


def _tile_of(launch: Launch, text: str, value: Value, places: tuple[Index, Index], shape: str) -> str:
    """An operand as a whole tile, zero beyond the depth, which is its second index."""
    writer = launch.writer
    axes = places[0].variables | places[1].variables
    variables = value.variables | axes
    masks = " & ".join(writer.mask(places[1].variables))
    if masks and not (text in writer.zeroed and places[1].variables <= value.variables):
        text = writer.line("counted", f"tl.where({masks}, {text}, 0.0)", variables)
    return text if axes <= value.variables else writer.line("spread", f"tl.broadcast_to({text}, {shape})", variables)
