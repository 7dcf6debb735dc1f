"""Reading `@step` of form scheduled into a `TaskGraph`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.labels.storages import label_of_op
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.storage.pointwise import in_place_pairs, is_whole_composite
from dmc.analysis.storage.spaces import argument_spaces
from dmc.analysis.tasks.costs import TaskCosts, moved_bytes
from dmc.analysis.tasks.graph import COMPUTE, Task, TaskGraph
from dmc.analysis.tasks.storages import TaskStorages, aligned_bytes
from dmc.errors import DmcError
from dmc.program import DEVICE, Space, device_bytes
from dmc.program.labels import short
from dmc.step_function import Port, arguments, find_step, functions, mutated_state, symbol

_HINT = "a step contains only dm.kernel, dm.start, dm.wait, buckets and views: run dm-form-kernels and dm-async first"


def read_tasks(module: ir.Module, costs: TaskCosts) -> TaskGraph:
    """The graph of `@step`. Linear in the number of operations and operands.

    New values of state count no memory where they can replace the old ones: then the writer of the new value depends on
    all readers of the old. Raises DmcError for operations that do not belong to form scheduled.
    """
    step = find_step(module)
    *body, terminator = [view.operation for view in step.entry_block.operations]
    reader = _Reader(step, costs)
    for op in body:
        reader.read(op)
    return reader.graph(terminator)


class _Reader:
    """Reads operations one by one. behind: for each value, the tasks that compute it, through views."""

    def __init__(self, step: func.FuncOp, costs: TaskCosts) -> None:
        self.step, self.costs = step, costs
        self.storages = TaskStorages()
        self.tasks: list[Task] = []
        self.order: list[int] = []
        self.behind: dict[ir.Value, tuple[int, ...]] = {}
        self.tokens: dict[ir.Value, int] = {}
        self.messages: dict[str, int] = {}
        self.resident = 0
        for port, space in zip(arguments(step), argument_spaces(step), strict=True):
            self._take(port, space)

    def _take(self, port: Port, space: Space) -> None:
        argument = self.step.arguments[port.index]
        self.storages.make(argument, argument.type, is_fixed=True)
        self.behind[argument] = ()
        self.resident += device_bytes({space: aligned_bytes(argument.type)})

    def read(self, op: ir.Operation) -> None:
        """Reads one operation of the block. Raises DmcError if it does not belong to form scheduled."""
        match op.opview:
            case dm.KernelOp():
                self._kernel(op)
            case dm.StartOp():
                self._start(op)
            case dm.WaitOp():
                self._wait(op)
            case dm.PackOp():
                self.storages.pack(op.results[0], list(op.operands))
                self.behind[op.results[0]] = self._needs(op.operands)
            case _ if is_view(op) or isinstance(op.opview, dm.UnpackOp):
                for result in op.results:
                    self.storages.share(result, op.operands[0])
                    self.behind[result] = self.behind[op.operands[0]]
            case _:
                raise DmcError(op, "may not appear in @step in form 'scheduled'", _HINT)

    def _kernel(self, op: ir.Operation) -> None:
        view: Any = op.opview
        scratch = 0 if view.scratch is None else view.scratch.value
        label = name_of(op) or view.body.value
        writes = tuple(self.storages.make(result, result.type) for result in op.results)
        self._add(op, COMPUTE, self.costs.kernel(view), 0, label, (), writes, scratch)

    def _start(self, op: ir.Operation) -> None:
        view: Any = op.opview
        movement: Any = dm.movement_of(view)
        label = _movement_name(op, movement)
        writes: tuple[int, ...] = ()
        if len(movement.operation.results):
            on_host = isinstance(movement, dm.CopyOp) and movement.target.value != DEVICE
            made = self.storages.make(view.handle, movement.operation.results[0].type, is_fixed=on_host)
            writes = (made,)
        lane = _lane(view, movement)
        after = [self.tokens[token] for token in view.after]
        if isinstance(movement, dm.SendOp | dm.RecvOp):
            # A send here is a receive elsewhere: only their order makes them match.
            after += [self.messages[lane]] if lane in self.messages else []
            self.messages[lane] = len(self.tasks)
        self.tokens[op.results[1]] = len(self.tasks)
        size = moved_bytes(movement)
        self._add(op, lane, self.costs.movement(movement), size, label, tuple(after), writes, 0)

    def _add(
        self,
        op: ir.Operation,
        lane: str,
        ns: float,
        size: int,
        label: str,
        after: tuple[int, ...],
        writes: tuple[int, ...],
        scratch: int,
    ) -> None:
        index = len(self.tasks)
        inputs = [operand for operand in op.operands if operand not in self.tokens]
        needs, reads = self._needs(inputs), tuple(map(self.storages.of, inputs))
        self.tasks.append(Task(op, None, lane, ns, size, label, needs, after, reads, writes, scratch))
        self.order.append(index)
        for result in op.results:
            self.behind[result] = (index,)

    def _wait(self, op: ir.Operation) -> None:
        (index,) = self.behind[op.operands[0]]
        self.tasks[index] = replace(self.tasks[index], wait=op)
        if self.tasks[index].is_movement:
            self.order.append(~index)
        for result in op.results:
            self.storages.share(result, op.operands[0])
            self.behind[result] = (index,)

    def _needs(self, values: Iterable[ir.Value]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(index for value in values for index in self.behind[value]))

    def graph(self, terminator: ir.Operation) -> TaskGraph:
        """The graph, once all operations before `terminator` were read."""
        self.storages.join_buckets()
        _reduce_in_place(self.tasks, self.storages, terminator)
        _overwrite(self.step, self.tasks, self.storages, terminator)
        hazards, in_place = self._states(terminator)
        find = self.storages.find
        tasks = [
            replace(
                task,
                needs=tuple(dict.fromkeys((*task.needs, *hazards.get(index, ())))),
                reads=tuple(dict.fromkeys(map(find, task.reads))),
                writes=tuple(dict.fromkeys(map(find, task.writes))),
            )
            for index, task in enumerate(self.tasks)
        ]
        count = range(len(self.storages))
        sizes = tuple(max(0, self.storages.bytes(each) - in_place.get(each, 0)) for each in count)
        kept = tuple(dict.fromkeys(self.storages.of(value) for value in terminator.operands))
        return TaskGraph(self.step, tuple(tasks), tuple(self.order), sizes, kept, self.resident)

    def _states(self, terminator: ir.Operation) -> tuple[dict[int, list[int]], dict[int, int]]:
        """For each task, those that must be done before it overwrites state; by storage, the bytes that need no
        memory."""
        begins = {event: place for place, event in enumerate(self.order) if event >= 0}
        ends = begins | {~event: place for place, event in enumerate(self.order) if event < 0}
        readers: dict[int, list[int]] = {}
        for index, task in enumerate(self.tasks):
            for storage in dict.fromkeys(map(self.storages.find, task.reads)):
                readers.setdefault(storage, []).append(index)
        hazards: dict[int, list[int]] = {}
        in_place: dict[int, int] = {}
        for argument, result in mutated_state(self.step):
            value, storage = terminator.operands[result.index], self.storages.of(terminator.operands[result.index])
            # What goes back to host memory needs none of the device's, and overwrites the old value all the same.
            if not self.behind[value]:
                continue
            others = readers.get(self.storages.of(self.step.arguments[argument.index]), [])
            writers = self.behind[value]
            if all(ends[reader] < begins[writer] for writer in writers for reader in others if reader not in writers):
                in_place[storage] = in_place.get(storage, 0) + aligned_bytes(value.type)
                for writer in writers:
                    hazards.setdefault(writer, []).extend(each for each in others if each not in writers)
        return hazards, in_place


def _reduce_in_place(tasks: list[Task], storages: TaskStorages, terminator: ir.Operation) -> None:
    """An all-reduce works in place on an operand that nothing else reads."""
    readers = _readers(tasks, storages, terminator)
    for task in tasks:
        if task.wait is None or not isinstance(dm.movement_of(task.op.opview), dm.AllReduceOp):
            continue
        operand = storages.of(task.op.operands[0])
        is_whole = storages.bytes(operand) == storages.bytes(task.writes[0])
        if is_whole and not storages.is_fixed(operand) and len(readers.get(operand, ())) == 1:
            readers[operand] = readers.get(storages.find(task.writes[0]), set())
            storages.join(task.op.results[0], task.op.operands[0])


def _overwrite(step: func.FuncOp, tasks: list[Task], storages: TaskStorages, terminator: ir.Operation) -> None:
    """A whole composite works in place, where its code allows it, on an operand that it reads last in every order."""
    whole = {symbol(each): each for each in functions(step.operation.parent.opview) if is_whole_composite(each)}
    readers = _readers(tasks, storages, terminator)
    for index, task in enumerate(tasks):
        body = task.op.opview.body.value if isinstance(task.op.opview, dm.KernelOp) else ""
        for number, result in sorted(in_place_pairs(whole[body])) if body in whole else ():
            value, made = task.op.operands[number], task.op.results[result]
            operand = storages.of(value)
            is_free = storages.of(made) == task.writes[result] and operand not in map(storages.find, task.writes)
            is_last = readers[operand] <= {index, *task.needs}
            if is_free and is_last and storages.bytes(operand) == aligned_bytes(made.type):
                readers[operand] |= readers.get(task.writes[result], set())
                storages.join(made, value)


def _readers(tasks: list[Task], storages: TaskStorages, terminator: ir.Operation) -> dict[int, set[int]]:
    """By storage, the tasks that read it; one more than there are stands for the step's results."""
    readers: dict[int, set[int]] = {}
    for index, task in enumerate(tasks):
        for storage in task.reads:
            readers.setdefault(storages.find(storage), set()).add(index)
    for value in terminator.operands:
        readers.setdefault(storages.of(value), set()).add(len(tasks))
    return readers


def _lane(start: Any, movement: Any) -> str:
    """A movement's lane; without a channel, that of its group."""
    if start.queue.value != "comm":
        return start.queue.value
    return "+".join(dm.group_axes(movement.group)) if movement.channel is None else movement.channel.value


def _movement_name(op: ir.Operation, movement: Any) -> str:
    kind = movement.operation.name.removeprefix("dm.")
    of = name_of(op)
    return f"{kind} #{op.attributes['instance'].value}{f' of {of}' if of else ''}"


def name_of(op: ir.Operation) -> str:
    """A short readable name of an operation: what it moves, or the module that it comes from."""
    return short(label_of_op(op))
