"""The module of a rank of a pipeline, made from the operations that it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dmc import dialect as dm
from dmc._mlir import arith, func, ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.storage.fixed import of_stage
from dmc.dialect.labels import Label, put_label, with_action
from dmc.passes.scheduled.split_stages.flow import OUTSIDE, Flow, Key
from dmc.passes.scheduled.split_stages.programs import Message, RankProgram, Receive, Run, Send
from dmc.passes.shared.loops import copy_with
from dmc.passes.shared.starts import IN_TIME
from dmc.stages import Place, put_place
from dmc.step_function import functions, symbol
from dmc.walk import listed


@dataclass(frozen=True)
class Wires:
    """The axis of the mesh along which messages go, the number of each, and the action that computes each value."""

    axis: str
    mesh: str
    numbers: Mapping[Message, int]
    actions: Mapping[Key, str]


def module_of(module: ir.Module, step: func.FuncOp, flow: Flow, program: RankProgram, wires: Wires) -> ir.Module:
    """A module with the `@step` of one rank of the pipeline, and everything that it refers to."""
    own = ir.Module.create(step.location)
    for name in module.operation.attributes:
        own.operation.attributes[name] = module.operation.attributes[name]
    put_place(own, Place(wires.axis, program.rank))
    with ir.InsertionPoint(own.body):
        for op in module.body.operations:
            if isinstance(op, dm.MeshOp):
                op.operation.clone()
        _Emission(flow, step, program, wires).emit()
        _copy_callees(module, own)
    return own


def _copy_callees(module: ir.Module, own: ir.Module) -> None:
    """The functions that operations name, and those that these name."""
    known = {symbol(function): function.operation for function in functions(module)}
    pending, copied = [own.operation], set[str]()
    while pending:
        for name in _named(pending.pop()):
            if name in known and name not in copied:
                copied.add(name)
                pending.append(known[name].clone())


def _named(op: ir.Operation) -> Iterable[str]:
    for inner in listed(op):
        for name in inner.attributes:
            if isinstance(attribute := inner.attributes[name], ir.FlatSymbolRefAttr):
                yield attribute.value


@dataclass
class _Emission:
    """values: what each key has become. last: the token of the message before, after which the next one starts."""

    flow: Flow
    old: func.FuncOp
    program: RankProgram
    wires: Wires
    values: dict[Key, ir.Value] = field(default_factory=dict[Key, ir.Value])
    last: tuple[ir.Value, ...] = ()

    def emit(self) -> None:
        ports = [value for value in self.old.arguments if value in self.program.arguments]
        operands = [self.flow.terminator.operands[number] for number in self.program.results]
        step = func.FuncOp("step", ([value.type for value in ports], [value.type for value in operands]))
        numbers = [ir.BlockArgument(value).arg_number for value in ports]
        for name, kept in (("arg_attrs", numbers), ("res_attrs", self.program.results)):
            old = self.old.operation.attributes[name]
            given = [of_stage(ir.DictAttr(old[number]), self.program.rank) for number in kept]
            step.operation.attributes[name] = ir.ArrayAttr.get(given)
        block = step.add_entry_block()
        self.values.update(((value, OUTSIDE), new) for value, new in zip(ports, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for item in self.program.items:
                match item:
                    case Run():
                        self._run(item)
                    case Send(message):
                        self._send(message)
                    case Receive(message):
                        self._receive(message)
            with self.flow.terminator.location:
                func.ReturnOp([self.values[self.flow.key(value, OUTSIDE)] for value in operands])

    def _run(self, run: Run) -> None:
        read = {value: self._value(self.flow.key(value, run.micro)) for value in outer_reads(run.op)}
        copy = copy_with(run.op, read)
        copy.location = with_action(copy.location, run.action)
        for result in run.op.results:
            self.values[result, run.micro] = read[result]

    def _value(self, key: Key) -> ir.Value:
        if key not in self.values and self.flow.is_index(key[0]):
            with ir.Location.unknown():
                self.values[key] = arith.ConstantOp(key[0].type, key[1]).result
        return self.values[key]

    def _send(self, message: Message) -> None:
        value, how = self.values[message.key], self._how(message)
        with self._location(message):
            start = dm.start(
                value,
                lambda given: _in_time(dm.send(given, target=message.target, **how)),
                payload=None,
                queue="comm",
                instance=how["instance"],
                after=self.last,
            )
            dm.wait(start.handle)
        self.last = (start.token,)

    def _receive(self, message: Message) -> None:
        type_, how = message.key[0].type, self._how(message)
        with self._location(message):
            start = dm.start(
                None,
                lambda: _in_time(dm.recv(result=type_, source=message.source, **how)),
                payload=type_,
                queue="comm",
                instance=how["instance"],
                after=self.last,
            )
            self.values[message.key] = dm.wait(start.handle).result
        self.last = (start.token,)

    def _how(self, message: Message) -> dict[str, Any]:
        return {"instance": self.wires.numbers[message], "group": dm.group(self.wires.mesh, [self.wires.axis])}

    def _location(self, message: Message) -> ir.Location:
        owner = message.key[0].owner
        where = owner.location if isinstance(owner, ir.Operation | ir.OpView) else ir.Location.unknown()
        return with_action(where, self.wires.actions.get(message.key, ""))


def _in_time(movement: ir.OpView) -> ir.OpView:
    """It is started where it stands."""
    movement.operation.attributes[IN_TIME] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    put_label(movement.operation, Label(why="pipeline"))
    return movement
