"""The memory that the values of `@step` need in form scheduled, before anything is shared.

A *storage* is filled by one op, or comes with an argument. Views, waits and unpacked tensors have none: they alias
their operand's. A position is the index of an op in `@step`; a movement's operand and result are in use from its start
to its wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.storage.fixed import fixed_offsets
from dmc.analysis.storage.pieces import is_view, piece_offset
from dmc.analysis.storage.spaces import argument_spaces
from dmc.dialect.movement import delivered, movement_of
from dmc.dialect.plan import element_bytes, type_bytes
from dmc.errors import DmcError
from dmc.program import DEVICE, HOST, STAGED, Space
from dmc.step_function import arguments, mutated_state


@dataclass(frozen=True)
class Place:
    """The place of a value: a byte offset in a storage, given by its index."""

    storage: int
    offset: int


@dataclass(frozen=True)
class Read:
    """A read of a storage from position `first` to position `last`, inclusive."""

    first: int
    last: int


@dataclass
class Storage:
    """Memory filled by one op or an argument.

    value: an argument, a result, or the handle of a movement. space: the memory space. bytes: its size. first, last:
    the positions of the first and last write; -1 and -1 for arguments. reads: in order. fixed: the offset in its arena,
    where that is decided already.
    """

    value: ir.Value
    space: Space
    bytes: int
    first: int
    last: int
    reads: list[Read] = field(default_factory=list)
    fixed: int | None = None


@dataclass(frozen=True)
class Storages:
    """All storages of a step, the arguments' first, and the place of each value (a tensor or a handle) in them.

    ops: those of the step; a position is an index here.
    """

    ops: tuple[ir.Operation, ...]
    all: tuple[Storage, ...]
    places: Mapping[ir.Value, Place]

    def of(self, value: ir.Value) -> Storage:
        """The storage that contains a value."""
        return self.all[self.places[value].storage]


def storages(step: func.FuncOp) -> Storages:
    """The storages of a step in form scheduled. Raises DmcError for what does not belong to that form."""
    ops = tuple(view.operation for view in step.entry_block.operations)
    collector, fixed = _Collector(_waits(ops)), fixed_offsets(step)
    for port, space in zip(arguments(step), argument_spaces(step), strict=True):
        collector.put(step.arguments[port.index], space, type_bytes(port.type), -1, -1)
        collector.storages[-1].fixed = fixed.get(step.arguments[port.index])
    for position, op in enumerate(ops):
        collector.visit(op, position)
    found = Storages(ops, tuple(collector.storages), collector.places)
    _check_return(step, found)
    return found


def _check_return(step: func.FuncOp, found: Storages) -> None:
    """State that waits in host memory goes back there: nothing else would move it."""
    *_, terminator = found.ops
    for argument, result in mutated_state(step):
        old, new = found.of(step.arguments[argument.index]), found.of(terminator.operands[result.index])
        if old.space == HOST != new.space:
            fact = f"leaves the new value of '{argument.name}' in {new.space} memory; it waits in {HOST} memory"
            raise DmcError(terminator, fact, "copy it there (dm-copy-ports)")


def value_bytes(value: ir.Value) -> int:
    """The bytes of a tensor, or of a handle's result."""
    given = value.type
    return type_bytes(delivered(given) if isinstance(given, dm.HandleType) else given)


@dataclass
class _Collector:
    waits: Mapping[ir.Value, int]
    storages: list[Storage] = field(default_factory=list)
    places: dict[ir.Value, Place] = field(default_factory=dict)

    def put(self, value: ir.Value, space: Space, size: int, first: int, last: int) -> None:
        """Gives `value` its own storage."""
        self.places[value] = Place(len(self.storages), 0)
        self.storages.append(Storage(value, space, size, first, last))

    def visit(self, op: ir.Operation, position: int) -> None:
        """Records the op's reads and the places of its results."""
        match op.opview:
            case dm.WaitOp():
                if len(op.results):
                    self._view(op.results[0], op.operands[0], 0)
            case dm.UnpackOp():
                for result, offset in zip(op.results, member_offsets(op), strict=True):
                    self._view(result, op.operands[0], offset)
            case dm.StartOp():
                self._start(op, position)
            case dm.KernelOp() | dm.PackOp() | func.ReturnOp():
                self._compute(op, position)
            case _ if is_view(op):
                # The offset of an all_slice's piece depends on the rank: its place here is that of the whole.
                self._view(op.results[0], op.operands[0], piece_offset(op))
            case _:
                raise DmcError(
                    op, "does not belong to form scheduled", "turn computation into kernels (dm-form-kernels)"
                )

    def _view(self, result: ir.Value, operand: ir.Value, offset: int) -> None:
        place = self.places[operand]
        self.places[result] = Place(place.storage, place.offset + offset)

    def _start(self, op: ir.Operation, position: int) -> None:
        last = self.waits.get(op.results[0], position)
        start = op.opview
        if start.input is not None:
            self._read(start.input, position, last)
        if delivered(start.handle.type) is not None:
            self.put(op.results[0], _space(movement_of(start)), value_bytes(op.results[0]), position, last)

    def _compute(self, op: ir.Operation, position: int) -> None:
        spaces = {self._read(value, position, position) for value in op.operands}
        if op.name != "func.return" and spaces - {DEVICE, STAGED}:
            raise DmcError(op, f"reads {' and '.join(sorted(spaces))} memory", "copy it to the device (dm-copy-ports)")
        for result in op.results:
            self.put(result, DEVICE, value_bytes(result), position, position)

    def _read(self, value: ir.Value, first: int, last: int) -> Space:
        storage = self.storages[self.places[value].storage]
        storage.reads.append(Read(first, last))
        return storage.space


def _waits(ops: tuple[ir.Operation, ...]) -> dict[ir.Value, int]:
    """The position of each handle's wait."""
    return {op.operands[0]: position for position, op in enumerate(ops) if op.name == dm.WaitOp.OPERATION_NAME}


def _space(movement: ir.OpView) -> Space:
    return movement.target.value if isinstance(movement, dm.CopyOp) else DEVICE


def member_offsets(op: ir.Operation) -> list[int]:
    """The offsets of the members of a `dm.pack` or `dm.unpack` in the bucket, in bytes."""
    bucket = op.results[0] if op.name == dm.PackOp.OPERATION_NAME else op.operands[0]
    tensor = ir.RankedTensorType(bucket.type)
    element = element_bytes(tensor.element_type)
    return [offset * element for offset in op.opview.offsets]
