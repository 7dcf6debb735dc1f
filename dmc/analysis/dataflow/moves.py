"""Operations that move elements: slices, transpositions, buckets, and collectives along any dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.dataflow.reader import Reader
from dmc.analysis.storage.storages import member_offsets
from dmc.dialect.collectives import permute_sources_and_targets
from dmc.dialect.movement import movement_of
from dmc.errors import DmcError
from dmc.program.dataflow import NOBODY, Choice, Local, Moved, Movement, Moving, Read, Received, Rows, Sent, Transpose

_DYNAMIC = ir.ShapedType.get_dynamic_size()
# A contiguous range of a tensor: its first byte and its length.
_Stretch = tuple[int, int]


def read_same(reader: Reader, op: ir.Operation) -> None:
    """A reshape, a copy, a barrier, the end of a movement: the same elements."""
    reader.numbers.update((result, reader[op.operands[0]]) for result in op.results)


def read_slice(reader: Reader, op: ir.Operation) -> None:
    """A slice is the memory ranges that it consists of; one of very many is known by its bounds."""
    bounds = _bounds(op)
    if bounds is None:
        reader.opaque(op)
        return
    whole = op.operands[0]
    taken = _taken(reader, whole.type, *bounds, reader[whole])
    reader[op.results[0]] = reader.add(taken)


def read_insert(reader: Reader, op: ir.Operation) -> None:
    """A tensor with ranges replaced by those of another."""
    source, target, *_ = op.operands
    bounds = _bounds(op)
    if bounds is None or _count(target.type.shape, bounds[1]) > reader.module.most_pieces:
        reader.opaque(op)
        return
    pieces: list[tuple[int, int, int]] = []
    taken = end = 0
    for first, length in _stretches(reader, target.type, *bounds):
        pieces += [(reader[target], end, first - end), (reader[source], taken, length)]
        taken, end = taken + length, first + length
    pieces.append((reader[target], end, reader.module.size(target.type) - end))
    reader[op.results[0]] = reader.rows([piece for piece in pieces if piece[2]])


def read_transpose(reader: Reader, op: ir.Operation) -> None:
    """`linalg.transpose`."""
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    operand = op.operands[0]
    reader[op.results[0]] = _transposed(reader, reader[operand], operand.type, operand.type.shape, order)


def read_all_slice(reader: Reader, op: ir.Operation) -> None:
    """The slice of each member of a group along one dimension."""
    view, type_ = op.opview, op.operands[0].type
    sizes, dim = list(op.results[0].type.shape), view.dim.value
    axes = dm.group_axes(view.group)
    choices: list[Local] = []
    for member in range(reader.module.mesh.group_size(axes)):
        offsets = [member * size if i == dim else 0 for i, size in enumerate(sizes)]
        choices.append(_taken(reader, type_, offsets, sizes, reader[op.operands[0]]))
    reader[op.results[0]] = reader.add(Choice(axes, tuple(choices)))


def read_start(reader: Reader, op: ir.Operation) -> None:
    """A movement in flight is the value it will deliver."""
    movement = movement_of(op.opview).operation
    if movement.name not in MOVEMENTS:
        raise DmcError(movement, "is a movement whose dataflow is not known", "use another")
    arguments = op.regions[0].blocks[0].arguments
    reader.numbers.update(
        (argument, reader[operand]) for argument, operand in zip(arguments, op.operands, strict=False)
    )
    MOVEMENTS[movement.name](reader, movement)
    if len(movement.results):
        reader[op.results[0]] = reader[movement.results[0]]


def read_pack(reader: Reader, op: ir.Operation) -> None:
    """A bucket is its members, with uninitialised padding between them."""
    pieces: list[tuple[int, int, int]] = []
    end = 0
    parts = sorted(zip(member_offsets(op), op.operands, strict=True), key=lambda part: part[0])
    for offset, member in parts:
        size = reader.module.size(member.type)
        pieces += [(NOBODY, 0, offset - end), (reader[member], 0, size)]
        end = offset + size
    pieces.append((NOBODY, 0, reader.module.size(op.results[0].type) - end))
    reader[op.results[0]] = reader.rows([piece for piece in pieces if piece[2]])


def read_concat(reader: Reader, op: ir.Operation) -> None:
    """Operands that follow each other in memory are pieces of the result; others are known by the operation."""
    if prod(op.results[0].type.shape[: op.attributes["dim"].value]) != 1:
        reader.opaque(op)
        return
    sizes = [reader.module.size(value.type) for value in op.operands]
    pieces = [(reader[value], 0, size) for value, size in zip(op.operands, sizes, strict=True)]
    reader[op.results[0]] = reader.rows([piece for piece in pieces if piece[2]])


def read_unpack(reader: Reader, op: ir.Operation) -> None:
    """A member of a bucket is a range of it."""
    for result, offset in zip(op.results, member_offsets(op), strict=True):
        reader[result] = reader.rows([(reader[op.operands[0]], offset, reader.module.size(result.type))])


def _all_reduce(reader: Reader, op: ir.Operation) -> None:
    reader[op.results[0]] = _reduced(reader, op, "all_reduce", reader[op.operands[0]])


def _all_gather(reader: Reader, op: ir.Operation) -> None:
    """Pieces concatenated, then moved to their dimension."""
    type_, axes = op.operands[0].type, _axes(op)
    size = reader.module.size(type_)
    members = reader.module.mesh.group_size(axes)
    gathered = reader.add(Moved("all_gather", axes, reader[op.operands[0]], Moving(size)))
    order = _from_first(op.attributes["dim"].value, len(type_.shape))
    reader[op.results[0]] = _transposed(reader, gathered, type_, [members, *type_.shape], order)


def _reduce_scatter(reader: Reader, op: ir.Operation) -> None:
    """The rank's own piece along a dimension, reduced."""
    pieces = _pieces(reader, op, op.attributes["dim"].value, _axes(op))
    reader[op.results[0]] = _reduced(reader, op, "reduce_scatter", pieces)


def _all_to_all(reader: Reader, op: ir.Operation) -> None:
    type_, axes = op.operands[0].type, _axes(op)
    members = reader.module.mesh.group_size(axes)
    split, joined = op.attributes["split_dim"].value, op.attributes["concat_dim"].value
    pieces = _pieces(reader, op, split, axes)
    exchanged = reader.add(Moved("all_to_all", axes, pieces, Moving(reader.module.size(type_))))
    piece = [size // members if dim == split else size for dim, size in enumerate(type_.shape)]
    order = _from_first(joined, len(piece))
    reader[op.results[0]] = _transposed(reader, exchanged, type_, [members, *piece], order)


def _broadcast(reader: Reader, op: ir.Operation) -> None:
    how = Moving(reader.module.size(op.operands[0].type), root=op.opview.root.value)
    reader[op.results[0]] = reader.add(Moved("broadcast", _axes(op), reader[op.operands[0]], how))


def _permute(reader: Reader, op: ir.Operation) -> None:
    pairs = tuple(zip(*permute_sources_and_targets(op.opview), strict=True))
    how = Moving(reader.module.size(op.operands[0].type), pairs=pairs)
    reader[op.results[0]] = reader.add(Moved("permute", _axes(op), reader[op.operands[0]], how))


def _send(reader: Reader, op: ir.Operation) -> None:
    view = op.opview
    reader.nodes.append(Sent(view.instance.value, _axes(op), view.target.value, reader[op.operands[0]]))


def _recv(reader: Reader, op: ir.Operation) -> None:
    reader[op.results[0]] = reader.add(Received(op.opview.instance.value))


def _reduced(reader: Reader, op: ir.Operation, kind: Movement, operand: int) -> int:
    type_, view = op.operands[0].type, op.opview
    reduction = (view.reduction.value, str(view.accumulate.value), str(type_.element_type))
    return reader.add(Moved(kind, _axes(op), operand, Moving(reader.module.size(type_), reduction)))


def _pieces(reader: Reader, op: ir.Operation, dim: int, axes: tuple[str, ...]) -> int:
    """The operand as each member's piece along `dim`, concatenated."""
    type_, members = op.operands[0].type, reader.module.mesh.group_size(axes)
    shape = list(type_.shape)
    split = [*shape[:dim], members, shape[dim] // members, *shape[dim + 1 :]]
    order = [dim, *(i for i in range(len(split)) if i != dim)]
    return _transposed(reader, reader[op.operands[0]], type_, split, order)


def _axes(op: ir.Operation) -> tuple[str, ...]:
    return tuple(dm.group_axes(op.attributes["group"]))


def _from_first(dim: int, rank: int) -> list[int]:
    """The permutation that moves the first of `1 + rank` dimensions to before dimension `dim`."""
    order = list(range(1, rank + 1))
    order.insert(dim, 0)
    return order


def _transposed(reader: Reader, value: int, type_: ir.Type, shape: Sequence[int], order: Sequence[int]) -> int:
    """A value of this shape with permuted dimensions."""
    size = prod(shape) * reader.module.element_bytes(type_)
    return reader.add(Transpose(value, tuple(shape), tuple(order), str(type_.element_type), size))


def _taken(reader: Reader, whole: ir.Type, offsets: Sequence[int], sizes: Sequence[int], value: int) -> Local:
    """A slice of a value of type `whole`."""
    if _count(whole.shape, sizes) > reader.module.most_pieces:
        size = prod(sizes) * reader.module.element_bytes(whole)
        return Read(f"slice of {whole} at {list(offsets)} of {list(sizes)}", value, size)
    return Rows(tuple((value, first, length) for first, length in _stretches(reader, whole, offsets, sizes)))


def _bounds(op: ir.Operation) -> tuple[list[int], list[int]] | None:
    """Offsets and sizes of a slice, if static and with unit strides."""
    offsets, sizes, strides = (list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
    is_static = all(stride == 1 for stride in strides) and _DYNAMIC not in (*offsets, *sizes)
    return (offsets, sizes) if is_static else None


def _stretches(reader: Reader, whole: ir.Type, offsets: Sequence[int], sizes: Sequence[int]) -> Iterator[_Stretch]:
    """The memory ranges of a tensor of type `whole` that make up a slice, in order."""
    shape, element = list(whole.shape), reader.module.element_bytes(whole)
    steps = [prod(shape[dim + 1 :]) * element for dim in range(len(shape))]
    inner = _inner(shape, sizes)
    length = prod(sizes[inner:]) * element
    base = sum(offset * step for offset, step in zip(offsets, steps, strict=True))
    for index in product(*map(range, sizes[:inner])):
        yield base + sum(i * step for i, step in zip(index, steps, strict=False)), length


def _count(shape: Sequence[int], sizes: Sequence[int]) -> int:
    return prod(sizes[: _inner(shape, sizes)])


def _inner(shape: Sequence[int], sizes: Sequence[int]) -> int:
    """The first of the dimensions that are contiguous together: all after it are whole."""
    inner = max(len(shape) - 1, 0)
    while inner > 0 and sizes[inner] == shape[inner]:
        inner -= 1
    return inner


MOVEMENTS: dict[str, Callable[[Reader, ir.Operation], None]] = {
    dm.AllReduceOp.OPERATION_NAME: _all_reduce,
    dm.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
    dm.AllGatherOp.OPERATION_NAME: _all_gather,
    dm.AllToAllOp.OPERATION_NAME: _all_to_all,
    dm.BroadcastOp.OPERATION_NAME: _broadcast,
    dm.PermuteOp.OPERATION_NAME: _permute,
    dm.CopyOp.OPERATION_NAME: read_same,
    dm.SendOp.OPERATION_NAME: _send,
    dm.RecvOp.OPERATION_NAME: _recv,
}
