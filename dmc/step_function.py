"""Reading `@step`: its arguments, its results, and which argument each mutated state result replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dmc._mlir import func, ir
from dmc.errors import DmcError
from dmc.memo import once
from dmc.program import HOST_ROLES, STATE_ROLES

NAME, ROLE = "dm.name", "dm.role"

# In the order in which `@step` takes them.
ROLES = (*STATE_ROLES, *HOST_ROLES)
MUTABLE_ROLES = tuple(role for role in STATE_ROLES if role != "frozen")


@dataclass(frozen=True)
class Port:
    """An argument or a result of `@step`."""

    index: int
    name: str
    role: str
    type: ir.Type


def functions(module: ir.Module) -> list[func.FuncOp]:
    """Every function of the module, in order."""
    return [op for op in module.body.operations if isinstance(op, func.FuncOp)]


def is_public(function: func.FuncOp) -> bool:
    """Whether the function is visible outside the module."""
    visibility = function.operation.attributes.get("sym_visibility")
    return visibility is None or visibility.value == "public"


def symbol(function: func.FuncOp) -> str:
    """The function's symbol without `@`."""
    return function.operation.attributes["sym_name"].value


def find_step(module: ir.Module) -> func.FuncOp:
    """`@step`; raises DmcError if the module has none."""
    for function in functions(module):
        if symbol(function) == "step":
            return function
    raise DmcError(module.operation, "no function @step", "a training step is a module with `func.func @step`")


def arguments(step: func.FuncOp) -> tuple[Port, ...]:
    """The arguments; a missing name or role is empty."""
    return once(_ports, step.operation.attributes.get("arg_attrs"), step.type, "inputs")


def results(step: func.FuncOp) -> tuple[Port, ...]:
    """The results; a missing name is empty."""
    return once(_ports, step.operation.attributes.get("res_attrs"), step.type, "results")


def mutated_state(step: func.FuncOp) -> tuple[tuple[Port, Port], ...]:
    """Each state argument that the step changes, with the result of the same name that is its new value.

    Raises DmcError if such a result has another type than its argument, names an argument that a step never changes, or
    does not precede all outputs in the order of the arguments.
    """
    by_name = {argument.name: argument for argument in arguments(step) if argument.name}
    pairs = [(by_name[result.name], result) for result in results(step) if result.name in by_name]
    for position, (argument, result) in enumerate(pairs):
        _verify_pair(step, argument, result)
        if result.index != position or (position and argument.index < pairs[position - 1][0].index):
            raise DmcError(
                step.operation,
                f"result {result.index} is the new value of '{result.name}' but is out of order",
                "return the changed state first, in the order of its arguments; give outputs different names",
            )
    return tuple(pairs)


def outputs(step: func.FuncOp) -> tuple[Port, ...]:
    """The results that are not new values of state."""
    changed = {result.index for _, result in mutated_state(step)}
    return tuple(result for result in results(step) if result.index not in changed)


def _verify_pair(step: func.FuncOp, argument: Port, result: Port) -> None:
    if argument.role not in MUTABLE_ROLES:
        raise DmcError(
            step.operation,
            f"result {result.index} changes '{argument.name}', whose role '{argument.role}' is read-only",
            f"a result replaces an argument of role {', '.join(MUTABLE_ROLES)}; give an output a different name",
        )
    if argument.type != result.type:
        raise DmcError(
            step.operation,
            f"state '{argument.name}' comes as {argument.type} and leaves as {result.type}",
            "cast the new value to the type of its argument: both share one buffer",
        )


def _ports(attributes: Any, type_: ir.FunctionType, which: Literal["inputs", "results"]) -> tuple[Port, ...]:
    port_types: list[ir.Type] = getattr(type_, which)
    each = list(attributes) if attributes is not None else [{} for _ in port_types]
    return tuple(
        Port(index, _string(given, NAME), _string(given, ROLE), port_type)
        for index, (given, port_type) in enumerate(zip(each, port_types, strict=True))
    )


def _string(attributes: Any, key: str) -> str:
    return ir.StringAttr(attributes[key]).value if key in attributes else ""
