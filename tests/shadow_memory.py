"""Runs a step of form scheduled on shadow memory: every byte remembers whose it is, so that a clobbered one is seen.

Values are not computed. What an op makes are new marks, one for each byte; whoever reads a value must find its marks
where dm-plan-memory says that it lies. Movements read as late as they may, at their waits too, and write as early.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.memory.attributes import ARENAS, COPIED, stated_offset, stated_scratch_offset
from dmc.analysis.storage.pieces import is_view, piece_offset
from dmc.analysis.storage.storages import member_offsets, value_bytes
from dmc.step_function import STATE_ROLES, arguments, mutated_state, outputs

Marks = NDArray[np.int64]


def run_on_shadow_memory(step: func.FuncOp, index: int = 0, steps: int = 2) -> None:
    """Runs the step some times; `index` is the rank's place in the group of every all_slice.

    Raises AssertionError where a value is read, left or delivered that is no longer in its place.
    """
    arenas = ir.DictAttr(step.operation.attributes[ARENAS])
    shadow = _Shadow({each.name: np.full(each.attr.value, -1, np.int64) for each in arenas}, index)
    for port in arguments(step):
        space = "device" if port.role in STATE_ROLES else "pinned_host"
        shadow.make(step.arguments[port.index], space, stated_offset(step.arguments[port.index]))
    for _ in range(steps):
        shadow.run(step)


@dataclass
class _Shadow:
    """arenas: a mark for each byte. marks, places: of values. borrowed: what movements that are not waited for read."""

    arenas: dict[str, Marks]
    index: int
    marks: dict[ir.Value, Marks] = field(default_factory=dict)
    places: dict[ir.Value, tuple[str, int]] = field(default_factory=dict)
    borrowed: dict[ir.Value, ir.Value] = field(default_factory=dict)
    count: int = 0

    def run(self, step: func.FuncOp) -> None:
        """One step; then state is what the next one finds."""
        *body, terminator = [view.operation for view in step.entry_block.operations]
        for op in body:
            self._op(op)
        for port in outputs(step):
            self.check(terminator.operands[port.index], terminator)
        new = {}
        for old, result in mutated_state(step):
            argument, value = step.arguments[old.index], terminator.operands[result.index]
            self.check(value, terminator)
            new[argument] = self.marks[value]
            self._bytes(argument)[:] = new[argument]
        for port in outputs(step):
            self.check(terminator.operands[port.index], terminator)
        self.marks.update(new)
        for port in arguments(step):
            self.check(step.arguments[port.index], terminator)

    def make(self, value: ir.Value, space: str, offset: int) -> None:
        """New marks, which nothing else has, at a place."""
        size = value_bytes(value)
        self.places[value] = (space, offset)
        self.marks[value] = np.arange(self.count, self.count + size)
        self.count += size
        self._bytes(value)[:] = self.marks[value]

    def check(self, value: ir.Value, op: ir.Operation) -> None:
        """The value is in its place."""
        assert np.array_equal(self._bytes(value), self.marks[value]), f"{op}: {value} is not at {self.places[value]}"

    def _bytes(self, value: ir.Value) -> Marks:
        space, offset = self.places[value]
        found = self.arenas[space][offset : offset + value_bytes(value)]
        assert len(found) == value_bytes(value), f"{value} is not in the arena"
        return found

    def _op(self, op: ir.Operation) -> None:
        match op.opview:
            case dm.KernelOp():
                self._kernel(op)
            case dm.StartOp():
                self._start(op)
            case dm.WaitOp():
                self._wait(op)
            case dm.PackOp():
                self._pack(op)
            case dm.UnpackOp():
                for result, offset in zip(op.results, member_offsets(op), strict=True):
                    self._view(result, op.operands[0], offset)
            case _:
                assert is_view(op), op
                self._view(op.results[0], op.operands[0], piece_offset(op, self.index), is_said=self._is_same(op))

    def _kernel(self, op: ir.Operation) -> None:
        scratch = slice(0, 0)
        if op.opview.scratch is not None and op.opview.scratch.value:
            begin = stated_scratch_offset(op)
            scratch = slice(begin, begin + op.opview.scratch.value)
        self.arenas["device"][scratch] = -1
        for operand in op.operands:
            self.check(operand, op)
        for result in op.results:
            self.make(result, "device", stated_offset(result))
        self.arenas["device"][scratch] = -1
        for result in op.results:
            self.check(result, op)

    def _start(self, op: ir.Operation) -> None:
        start: Any = op.opview
        movement: Any = dm.movement_of(start)
        handle = op.results[0]
        space = movement.target.value if isinstance(movement, dm.CopyOp) else "device"
        self.check(start.input, op)
        if (space, stated_offset(handle)) != self.places[start.input]:
            self.borrowed[handle] = start.input
        self.make(handle, space, stated_offset(handle))

    def _wait(self, op: ir.Operation) -> None:
        handle = op.operands[0]
        if handle in self.borrowed:
            self.check(self.borrowed.pop(handle), op)
        self._view(op.results[0], handle, 0)

    def _pack(self, op: ir.Operation) -> None:
        copied = list(op.attributes[COPIED]) if COPIED in op.attributes else []
        bucket = op.results[0]
        self.places[bucket] = ("device", stated_offset(bucket))
        for index, (member, offset) in enumerate(zip(op.operands, member_offsets(op), strict=True)):
            self.check(member, op)
            if index in copied:
                self._bytes(bucket)[offset : offset + value_bytes(member)] = self.marks[member]
        self.marks[bucket] = self._bytes(bucket).copy()
        for member, offset in zip(op.operands, member_offsets(op), strict=True):
            assert np.array_equal(self.marks[bucket][offset : offset + value_bytes(member)], self.marks[member]), op

    def _view(self, result: ir.Value, operand: ir.Value, offset: int, *, is_said: bool = True) -> None:
        space, begin = self.places[operand]
        self.places[result] = (space, begin + offset)
        self.marks[result] = self.marks[operand][offset : offset + value_bytes(result)]
        # A view reads nothing: who looks at it does.
        assert not is_said or stated_offset(result) == begin + offset

    def _is_same(self, op: ir.Operation) -> bool:
        """Whether the place is the same on all ranks, as far as the op itself can tell."""
        while not isinstance(op, ir.Block) and not isinstance(op.opview, dm.AllSliceOp) and is_view(op):
            op = op.operands[0].owner
        return isinstance(op, ir.Block) or not isinstance(op.opview, dm.AllSliceOp)
