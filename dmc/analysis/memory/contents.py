"""The contents of every byte while `@step` runs, after dm-plan-memory has assigned addresses: V2, V7 and V8.

Each value is tracked from its producer: every reader must find all of it at its address. In form planned, `dmc.proof`
sees only anonymous byte ranges; here they have names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.memory.attributes import ARENAS, COPIED, SCRATCH_OFFSET, stated_offset, stated_scratch_offset
from dmc.analysis.memory.handles import told_movement
from dmc.analysis.storage.pieces import is_view, piece_offset
from dmc.analysis.storage.spaces import argument_spaces
from dmc.analysis.storage.storages import member_offsets, value_bytes
from dmc.dialect.labels import place_of
from dmc.dialect.movement import delivered, movement_of
from dmc.errors import ProofError
from dmc.program import DEVICE, PINNED_HOST, Range
from dmc.program.interval_map import IntervalMap
from dmc.program.program import Space
from dmc.step_function import STATE_ROLES, arguments, mutated_state

# The owner of bytes: a value (by its number) and the byte of the arena where it begins, or would begin.
_Content = tuple[int, int]
_NOTHING: _Content = (-1, 0)
# The borrower of bytes: a movement (by its number), and whether it writes them.
_Loans = frozenset[tuple[int, bool]]


@dataclass(frozen=True)
class _Seen:
    """The place of a tensor in memory: the value that it is or views, where that begins, and its own bytes."""

    root: int
    begin: int
    where: Range


def check_contents(step: func.FuncOp) -> None:
    """Raises ProofError if an operation would not find its operands, or touches bytes that a movement has borrowed.

    Goes through `@step` once, in the order of issue, which conflicting accesses keep (V6). Raises DmcError if a value
    has no address. About linear in the number of operations.
    """
    walk = _Walk(step)
    for view in step.entry_block.operations:
        walk.visit(view.operation)


@dataclass
class _Walk:
    step: func.FuncOp
    names: list[str] = field(default_factory=list)
    seen: dict[ir.Value, _Seen] = field(default_factory=dict)
    # The members inside buckets; padding between them has no owner.
    members: dict[int, list[tuple[Range, _Content]]] = field(default_factory=dict)
    movements: list[str] = field(default_factory=list)
    loans: dict[ir.Value, tuple[int, list[Range]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.content: defaultdict[Space, IntervalMap[_Content]] = defaultdict(lambda: IntervalMap(_NOTHING))
        self.lent: defaultdict[Space, IntervalMap[_Loans]] = defaultdict(lambda: IntervalMap(frozenset()))
        arenas = ir.DictAttr(self.step.operation.attributes[ARENAS])
        self.room = {named.name: ir.IntegerAttr(named.attr).value for named in arenas}
        for port, space in zip(arguments(self.step), argument_spaces(self.step), strict=True):
            value = self.step.arguments[port.index]
            self._make(self.step.operation, value, space, f"'{port.name}'")

    def visit(self, op: ir.Operation) -> None:
        """One operation: checks what it reads, and records what it writes."""
        match op.opview:
            case dm.StartOp():
                self._start(op)
            case dm.WaitOp():
                self._wait(op)
            case dm.PackOp():
                self._pack(op)
            case dm.UnpackOp():
                for result, offset in zip(op.results, member_offsets(op), strict=True):
                    self._show(op, result, op.operands[0], offset)
            case func.ReturnOp():
                self._leave(op)
            case _ if is_view(op):
                self._show(op, op.results[0], op.operands[0], piece_offset(op))
            case _:
                self._compute(op)

    def _compute(self, op: ir.Operation) -> None:
        for operand in op.operands:
            self._read(op, self.seen[operand])
        if SCRATCH_OFFSET in op.attributes:
            scratch = Range(DEVICE, stated_scratch_offset(op), op.opview.scratch.value)
            self._write(op, scratch, (self._number(f"scratch of {_told(op)}"), scratch.offset))
        for result in op.results:
            self._make(op, result, DEVICE, _told(op))

    def _start(self, op: ir.Operation) -> None:
        start = op.opview
        taken = None if start.input is None else self.seen[start.input]
        if taken is not None:
            self._read(op, taken)
        loans: list[tuple[Range, bool]] = [] if taken is None else [(taken.where, False)]
        movement = movement_of(start)
        if delivered(start.handle.type) is not None:
            space: Space = movement.target.value if isinstance(movement, dm.CopyOp) else DEVICE
            self._make(op, op.results[0], space, told_movement(op))
            loans.append((self.seen[op.results[0]].where, True))
        number = len(self.movements)
        self.movements.append(told_movement(op))
        for where, writes in loans:
            known = self.lent[where.space]
            known.set(where, [each | {(number, writes)} for each in known.get(where)])
        self.loans[op.results[0]] = (number, [where for where, _ in loans])

    def _wait(self, op: ir.Operation) -> None:
        number, ranges = self.loans[op.operands[0]]
        for where in ranges:
            known = self.lent[where.space]
            known.set(where, [each - {(number, False), (number, True)} for each in known.get(where)])
        if len(op.results):
            self._show(op, op.results[0], op.operands[0], 0)

    def _pack(self, op: ir.Operation) -> None:
        copied = set(op.attributes[COPIED]) if COPIED in op.attributes else set()
        base, root = stated_offset(op.results[0]), self._number(f"bucket of {_told(op)}")
        parts: list[tuple[Range, _Content]] = []
        for index, (member, offset) in enumerate(zip(op.operands, member_offsets(op), strict=True)):
            found, where = self.seen[member], Range(DEVICE, base + offset, value_bytes(member))
            self._read(op, found)
            if index in copied:
                self._write(op, where, (root, base))
                parts.append((where, (root, base)))
            elif found.where == where:
                parts += self._parts(found)
            else:
                raise ProofError("V3", op, f"its member {index} is not in the bucket, and is not copied there")
        self.members[root] = parts
        self.seen[op.results[0]] = _Seen(root, base, Range(DEVICE, base, value_bytes(op.results[0])))

    def _leave(self, op: ir.Operation) -> None:
        """New state is written to its slot, in order; outputs and unchanged state are in place at the end."""
        changed: set[int] = set()
        for argument, result in mutated_state(self.step):
            new, slot = self.seen[op.operands[result.index]], self.seen[self.step.arguments[argument.index]].where
            changed.add(argument.index)
            self._read(op, new)
            if new.where != slot:
                self._write(op, slot, (self._number(f"new '{argument.name}'"), slot.offset))
        for port in arguments(self.step):
            if port.role in STATE_ROLES and port.index not in changed:
                self._read(op, self.seen[self.step.arguments[port.index]])
        for value in op.operands:
            if (found := self.seen[value]).where.space == PINNED_HOST:
                self._read(op, found)

    def _make(self, op: ir.Operation, value: ir.Value, space: Space, name: str) -> None:
        """Records that `op` writes a value at its address."""
        where = Range(space, stated_offset(value), value_bytes(value))
        if where.end > self.room.get(space, 0) or where.offset < 0:
            fact = f"{name} is at {_place(where)}, outside the arena of {self.room.get(space, 0)} bytes"
            raise ProofError("V8", op, fact)
        number = self._number(name)
        self.seen[value] = _Seen(number, where.offset, where)
        self._write(op, where, (number, where.offset))

    def _show(self, op: ir.Operation, result: ir.Value, operand: ir.Value, offset: int) -> None:
        """`result` is part of `operand`; the part that an all_slice views depends on the rank, so all of it counts."""
        whole = self.seen[operand]
        size = value_bytes(result)
        is_spread = op.name == dm.AllSliceOp.OPERATION_NAME or whole.where.length != value_bytes(operand)
        where = whole.where if is_spread else Range(whole.where.space, whole.where.offset + offset, size)
        self.seen[result] = _Seen(whole.root, whole.begin, where)

    def _read(self, op: ir.Operation, found: _Seen) -> None:
        for where, wanted in self._parts(found):
            for content in self.content[where.space].get(where):
                if content != wanted:
                    names = self._name(wanted), self._name(content)
                    fact = f"reads {names[0]} at {_place(where)}, which by then holds {names[1]}"
                    raise ProofError("V7", op, fact, "give one of them another address")
            self._check_loans(op, where, writes=False)

    def _write(self, op: ir.Operation, where: Range, content: _Content) -> None:
        self._check_loans(op, where, writes=True)
        self.content[where.space].set(where, [content])

    def _check_loans(self, op: ir.Operation, where: Range, writes: bool) -> None:
        for loans in self.lent[where.space].get(where):
            for number, is_written in sorted(loans):
                if writes or is_written:
                    verb = "writes" if writes else "reads"
                    fact = f"{verb} {_place(where)}, which {self.movements[number]} has borrowed until its wait"
                    raise ProofError("V2", op, fact, "wait first, or give it another address")

    def _parts(self, found: _Seen) -> Iterator[tuple[Range, _Content]]:
        """The owned bytes of a tensor, and their owners: for a bucket those of its members."""
        if found.root not in self.members:
            yield found.where, (found.root, found.begin)
            return
        for member, content in self.members[found.root]:
            first, end = max(member.offset, found.where.offset), min(member.end, found.where.end)
            if first < end:
                yield Range(member.space, first, end - first), content

    def _number(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _name(self, content: _Content) -> str:
        return "nothing" if content == _NOTHING else self.names[content[0]]


def _place(where: Range) -> str:
    return f"{where.space} [{where.offset}, {where.end})"


def _told(op: ir.Operation) -> str:
    return place_of(op.location) or op.name
