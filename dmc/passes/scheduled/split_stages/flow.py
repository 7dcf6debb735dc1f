"""The operations of `@step` for a pipeline: those of one micro-batch, and those before and after all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dmc._mlir import func, ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.sharding.decisions import LOOP
from dmc.dialect.labels import module_path
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.program.labels import BACKWARD, UPDATE
from dmc.step_function import Port, arguments, mutated_state
from dmc.walk import terminator_of

# Instead of the number of a micro-batch: before or after all of them.
OUTSIDE = -1
# A value of the step, and the micro-batch of which it is.
Key: TypeAlias = tuple[ir.Value, int]

# Tensors that a step reads without changing them, of at most so many bytes, are at hand wherever they are needed.
_SMALL = 1 << 20
# What is computed of inputs and constants is computed again where it is needed, but for these.
_HEAVY = ("dm.composite", "linalg.matmul", "linalg.batch_matmul", "linalg.conv", "scf.for")
# The roles of tensors that every rank has.
_EVERYWHERE = ("control", "batch", "counter", "seed")


@dataclass(frozen=True)
class Flow:
    """before, inside, after: the operations, in order; `inside` are those of one of `count` micro-batches.

    loop: of the micro-batches; None where there is one, whose operations are found by their labels. ports: what each
    argument is. changed: the names of those that the step replaces. homes: the stage of those for which
    it is decided, because another program has them there. makers: the operation that computes a value.
    """

    before: tuple[ir.Operation, ...]
    inside: tuple[ir.Operation, ...]
    after: tuple[ir.Operation, ...]
    loop: ir.Operation | None
    count: int
    terminator: ir.Operation
    ports: Mapping[ir.Value, Port]
    changed: frozenset[str]
    homes: Mapping[ir.Value, int]
    makers: Mapping[ir.Value, ir.Operation]
    _inner: frozenset[ir.Operation]
    _behind: frozenset[ir.Operation]
    _read: dict[ir.Operation, tuple[ir.Value, ...]] = field(default_factory=dict[ir.Operation, tuple[ir.Value, ...]])

    @staticmethod
    def of(step: func.FuncOp, count: int, homes: Mapping[ir.Value, int]) -> Flow:
        """Raises DmcError where there is no loop of so many micro-batches."""
        *body, terminator = [view.operation for view in step.entry_block.operations]
        ports = {step.arguments[port.index]: port for port in arguments(step)}
        if count == 1:
            behind = _behind(body)
            parts = (), tuple(op for op in body if op not in behind), tuple(op for op in body if op in behind)
            loop = None
        else:
            loop = _loop(step, body, count)
            place = body.index(loop)
            inside = tuple(view.operation for view in loop.regions[0].blocks[0].operations)[:-1]
            parts = tuple(body[:place]), inside, tuple(body[place + 1 :])
        made = {result: op for part in parts for op in part for result in op.results}
        changed = frozenset(before.name for before, _ in mutated_state(step))
        inner, behind = map(frozenset, parts[1:])
        return Flow(*parts, loop, count, terminator, ports, changed, homes, made, inner, behind)

    @property
    def ops(self) -> Iterator[ir.Operation]:
        """All operations, in order, those of one micro-batch once."""
        yield from self.before
        yield from self.inside
        yield from self.after

    def carried(self, value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
        """Of a value that the loop carries, as its block has it or as it leaves: the first, and what it becomes."""
        if self.loop is None:
            return None
        block = self.loop.regions[0].blocks[0]
        if value.owner == block:
            number = ir.BlockArgument(value).arg_number - 1
        elif value.owner == self.loop:
            number = ir.OpResult(value).result_number
        else:
            return None
        return None if number < 0 else (self.loop.operands[3 + number], terminator_of(block).operands[number])

    def is_behind(self, op: ir.Operation | None) -> bool:
        """Whether an operation runs once, after all micro-batches."""
        return op in self._behind

    def is_index(self, value: ir.Value) -> bool:
        """Whether a value is the number of the micro-batch."""
        return self.loop is not None and value == self.loop.regions[0].blocks[0].arguments[0]

    def key(self, value: ir.Value, micro: int) -> Key:
        """What a value is in a micro-batch, through what the loop carries."""
        while (carried := self.carried(value)) is not None:
            if value.owner == self.loop:
                value, micro = carried[1], self.count - 1
            elif micro == 0:
                value, micro = carried[0], OUTSIDE
            else:
                value, micro = carried[1], micro - 1
        is_inside = self.is_index(value) or self.makers.get(value) in self._inner
        # Of one micro-batch, what comes behind reads what is inside.
        return value, max(micro, 0) if is_inside else OUTSIDE

    def reads(self, op: ir.Operation, micro: int) -> list[Key]:
        """The keys of what an operation reads, its regions included."""
        if op not in self._read:
            self._read[op] = tuple(outer_reads(op))
        return [self.key(value, micro) for value in self._read[op]]

    def is_shared(self, value: ir.Value) -> bool:
        """Whether any rank may have this argument: no rank changes it, or all do alike."""
        port = None if value in self.homes else self.ports.get(value)
        return port is not None and (port.role in _EVERYWHERE or port.name not in self.changed)

    def free(self) -> set[ir.Value]:
        """The values that any rank computes for itself: of inputs, constants and small unchanged tensors."""
        found = {value for value in self.ports if self.is_shared(value) and self._is_small(value)}
        found.update(argument for argument in self._numbers())
        for op in self.ops:
            if not op.name.startswith(_HEAVY) and found.issuperset(outer_reads(op)):
                found.update(op.results)
        return found

    def of_batch(self) -> set[ir.Value]:
        """The values that depend on the batch, or on the number of the micro-batch."""
        found = {value for value, port in self.ports.items() if port.role == "batch"}
        found.update(self._numbers())
        for op in self.ops:
            if not found.isdisjoint(outer_reads(op)):
                found.update(op.results)
        return found

    def _numbers(self) -> Iterator[ir.Value]:
        if self.loop is not None:
            yield self.loop.regions[0].blocks[0].arguments[0]

    def _is_small(self, value: ir.Value) -> bool:
        return self.ports[value].role in _EVERYWHERE or size_of(value) <= _SMALL


def is_tensor(value: ir.Value) -> bool:
    """Whether a value is in memory, so that it can be sent; a scalar is computed where it is read."""
    return isinstance(value.type, ir.RankedTensorType)


def size_of(value: ir.Value) -> int:
    """Bytes; 0 of a scalar."""
    return type_bytes(value.type) if is_tensor(value) else 0


def is_backward(op: ir.Operation) -> bool:
    """Whether an operation is labelled as one of the backward pass."""
    return module_path(op.location).endswith(BACKWARD)


def is_update(op: ir.Operation) -> bool:
    """Whether an operation is labelled as one of the optimizer."""
    return module_path(op.location).endswith(UPDATE)


def _behind(body: list[ir.Operation]) -> set[ir.Operation]:
    """The operations of the update, and those that depend on them."""
    found: set[ir.Operation] = set()
    made: set[ir.Value] = set()
    for op in body:
        if is_update(op) or not made.isdisjoint(outer_reads(op)):
            found.add(op)
            made.update(op.results)
    return found


def _loop(step: func.FuncOp, body: list[ir.Operation], count: int) -> ir.Operation:
    loops = [op for op in body if op.name == LOOP and len(op.operands) > 3 and any(map(is_backward, _inside(op)))]
    if len(loops) != 1:
        fact = f"has {len(loops)} loops with a backward pass, but its pipeline has {count} micro-batches"
        raise DmcError(step.operation, fact, "compile it with accumulate= the number of micro-batches")
    return loops[0]


def _inside(loop: ir.Operation) -> list[ir.Operation]:
    return [view.operation for view in loop.regions[0].blocks[0].operations]
