"""Where the arguments of `@step` are between steps.

`dm.space`: on an argument, the memory space of state that is not on the device: `host`, which is allocated once, like
the device's arena, and keeps its content from step to step; or `staged`, for an input that the runtime copies to the
device before the step. Otherwise what the host passes anew in each step is in `pinned_host`. Both exist once for each
call in flight.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.program import DEVICE, HOST, PINNED_HOST, STAGED, Space, aligned, spaces_of
from dmc.step_function import HOST_ROLES, STATE_ROLES, Port, arguments, find_step

SPACE = "dm.space"


def argument_spaces(step: func.FuncOp) -> tuple[Space, ...]:
    """The memory space of each argument."""
    ports = arguments(step)
    attributes = step.operation.attributes.get("arg_attrs")
    every = [{}] * len(ports) if attributes is None else list(attributes)
    return tuple(_space(port, own) for port, own in zip(ports, every, strict=True))


def waiting_bytes(step: func.FuncOp) -> int:
    """The bytes of the arguments that wait in host memory."""
    pairs = zip(arguments(step), argument_spaces(step), strict=True)
    return sum(aligned(type_bytes(port.type)) for port, space in pairs if space == HOST)


def put_in_host_memory(module: ir.Module, names: Collection[str]) -> None:
    """States that these tensors of the state are in host memory between steps."""
    if not names:
        return
    step = find_step(module)
    with module.context:
        given = zip(arguments(step), step.arg_attrs, strict=True)
        moved = [_moved(own, HOST) if port.name in names else own for port, own in given]
        step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(moved)


def stage_inputs(step: func.FuncOp) -> None:
    """States that the runtime copies inputs to the device before the step."""
    given = zip(arguments(step), step.arg_attrs, strict=True)
    moved = [_moved(own, STAGED) if port.role in HOST_ROLES else own for port, own in given]
    step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(moved)


def moves_state(start: dm.StartOp) -> bool:
    """Whether a start moves state that waits in host memory to the device, or back."""
    return HOST in _path(start)


def fetched(value: ir.Value) -> ir.Value:
    """The state that waits in host memory, for the handle of its copy to the device; any other value itself."""
    start = None if isinstance(value.owner, ir.Block) else value.owner.opview
    if not isinstance(start, dm.StartOp) or start.input is None or _path(start)[:1] != (HOST,):
        return value
    return start.input


def _path(start: dm.StartOp) -> tuple[str, ...]:
    """From where and to where a start copies; empty for another movement."""
    copy = dm.movement_of(start)
    return (copy.source.value, copy.target.value) if isinstance(copy, dm.CopyOp) else ()


def verify_spaces(module: ir.Module) -> None:
    """Raises DmcError for an argument where the runtime does not keep, or put, one of its role."""
    step = find_step(module)
    for port, space in zip(arguments(step), argument_spaces(step), strict=True):
        allowed = spaces_of(port.role)
        if space not in allowed:
            fact = f"argument {port.index} '{port.name}' of @step, a {port.role}, is in {space} memory"
            raise DmcError(step.operation, fact, f"it may be in {' or '.join(allowed)} memory")


def _space(port: Port, own: ir.DictAttr) -> Space:
    otherwise = DEVICE if port.role in STATE_ROLES else PINNED_HOST
    stated: Any = dm.SpaceAttr(own[SPACE]).value if SPACE in own else otherwise
    return stated


def _moved(own: ir.DictAttr, space: Space) -> ir.DictAttr:
    return ir.DictAttr.get({**{each.name: each.attr for each in own}, SPACE: dm.SpaceAttr.of(space)})
