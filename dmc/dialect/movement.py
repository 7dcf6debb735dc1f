"""Asynchronous movements: builders and rules of `dm.start` and `dm.wait`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dmc._mlir import ir
from dmc.dialect import build as b
from dmc.dialect._dm_gen import CopyOp, HandleType, QueueAttr, RecvOp, SendOp, StartOp, TokenType, WaitOp, yield_
from dmc.dialect.collectives import COLLECTIVES
from dmc.dialect.rules import Violation, region_rule, rule
from dmc.dialect.symbols import module_rule
from dmc.errors import DmcError

MOVEMENTS = (*COLLECTIVES, SendOp, RecvOp, CopyOp)


def start(
    input: ir.Value | None,
    movement: Callable[..., ir.OpView],
    *,
    payload: ir.Type | None,
    queue: str,
    instance: int,
    after: Sequence[ir.Value] = (),
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> StartOp:
    """Builds `dm.start`: starts a movement on a queue.

    `movement` builds the movement on the region's argument, which is `input` (no argument for None, as for a receive);
    `payload` is the type that it delivers, or None for a send. Raises DmcError if a rule is violated.
    """

    def body(block: ir.Block) -> None:
        with ir.InsertionPoint(block):
            yield_(list(movement(*block.arguments).results), loc=loc)

    return b.build(
        StartOp,
        operands=[input, after],
        results=[HandleType.get(ir.NoneType.get() if payload is None else payload), TokenType.get()],
        attributes={"queue": QueueAttr.of(queue), "instance": b.i64(instance)},
        loc=loc,
        ip=ip,
        body=body,
    )


def wait(handle: ir.Value, *, loc: ir.Location | None = None, ip: ir.InsertionPoint | None = None) -> WaitOp:
    """Builds `dm.wait`: waits for a movement and returns its result. Raises DmcError on a value of another type."""
    if not isinstance(handle.type, HandleType):
        raise DmcError(WaitOp.OPERATION_NAME, f"waits for a {handle.type}", hint="wait for the handle of a dm.start")
    return b.build(WaitOp, operands=[handle], results=[delivered(handle.type)], attributes={}, loc=loc, ip=ip)


def delivered(handle: HandleType) -> ir.Type | None:
    """The type that a movement delivers, or None if it delivers nothing."""
    payload = ir.TypeAttr(handle.params[0]).value
    return None if isinstance(payload, ir.NoneType) else payload


def movement_of(op: StartOp) -> ir.OpView:
    """The movement that a verified `dm.start` starts."""
    return op.regions[0].blocks[0].operations[0]


@rule(WaitOp)
def wait_delivers_the_payload(op: WaitOp) -> None:
    """The result has the type that the handle delivers."""
    promised = delivered(op.handle.type)
    result = None if op.result is None else op.result.type
    if promised != result:
        raise Violation(f"returns {_or_nothing(result)}, but {op.handle.type} delivers {_or_nothing(promised)}")


@rule(StartOp)
def start_takes_its_input(op: StartOp) -> None:
    """The region's argument is the input."""
    types = [] if op.input is None else [op.input.type]
    given = [argument.type for argument in op.regions[0].blocks[0].arguments]
    if given != types:
        raise Violation(f"region takes ({listed(given)}), but the inputs are ({listed(types)}); they must be the same")


@region_rule(StartOp)
def start_holds_one_movement(op: StartOp) -> None:
    """The region is one movement of the arguments and the yield of its result."""
    block = op.regions[0].blocks[0]
    ops = list(block.operations)
    names = ", ".join(each.operation.name for each in ops)
    if len(ops) != 2 or not isinstance(ops[0], MOVEMENTS) or ops[1].operation.name != "dm.yield":
        raise Violation(f"contains {names}; it must contain one movement and dm.yield")
    movement, yielded = ops
    if list(movement.operands) != list(block.arguments):
        raise Violation(f"{movement.operation.name} must take the region's arguments, all of them and in order")
    if list(yielded.operands) != list(movement.results):
        raise Violation(f"dm.yield must return what {movement.operation.name} delivers, and nothing else")
    promised = delivered(op.handle.type)
    result = movement.results[0].type if len(movement.results) else None
    if promised != result:
        raise Violation(f"returns {op.handle.type}, but {movement.operation.name} delivers {_or_nothing(result)}")
    _check_queue(op.queue.value, movement)
    if isinstance(movement, SendOp | RecvOp) and movement.instance != op.instance:
        raise Violation(f"is instance {op.instance.value}, but its message is instance {movement.instance.value}")


@module_rule(StartOp)
def instances_are_unique(ops: Sequence[StartOp]) -> None:
    """An instance is one movement; only the two ends of a message share one."""
    taken: dict[tuple[int, str], ir.Operation] = {}
    for op in ops:
        movement = movement_of(op).operation.name
        ends = {"dm.send": ("dm.send",), "dm.recv": ("dm.recv",)}.get(movement, ("dm.send", "dm.recv"))
        for end in ends:
            key = (op.instance.value, end)
            if key in taken:
                where = taken[key].location
                raise DmcError(op.operation, f"instance {key[0]} is already used by the dm.start at {where}")
            taken[key] = op.operation


def _check_queue(queue: str, movement: ir.OpView) -> None:
    if queue == "compute":
        return
    if not isinstance(movement, CopyOp):
        if queue != "comm":
            raise Violation(f"{movement.operation.name} cannot go on queue {queue}; use comm or compute")
        return
    source, target = movement.source.value, movement.target.value
    fitting = [name for name, space in (("copy_in", target), ("copy_out", source)) if space == "device"]
    if queue not in fitting:
        allowed = " or ".join([*fitting, "compute"])
        raise Violation(f"a copy from {source} to {target} cannot go on queue {queue}; use {allowed}")


def listed(types: Sequence[ir.Type]) -> str:
    """The types, separated by commas."""
    return ", ".join(str(type_) for type_ in types)


def _or_nothing(type_: ir.Type | None) -> str:
    return "nothing" if type_ is None else str(type_)
