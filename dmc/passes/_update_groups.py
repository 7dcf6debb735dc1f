"""Updates that compute the same and so become one, and where their state lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.passes import _arenas
from dmc.step_function import Port, mutated_state


@dataclass(frozen=True)
class Column:
    """What one result of the updates of a group replaces, for each member.

    state: the arguments of `@step` whose new values the results are; None where the old values are computed, as a
    rank's slices of parameters are that every rank holds whole.
    """

    result: int
    old: tuple[ir.Value, ...]
    state: tuple[Port, ...] | None


@dataclass(frozen=True)
class Group:
    """Updates that compute the same on the same scalars.

    An update takes the old value of a parameter, new data (a gradient), further old values, and scalars; it gives the
    new values. offsets, length: of the members in an arena, in elements.
    """

    name: str
    members: tuple[ir.Operation, ...]
    columns: tuple[Column, ...]
    offsets: tuple[int, ...]
    length: int

    @property
    def gradients(self) -> list[ir.Value]:
        """The new data of each member."""
        return [op.operands[1] for op in self.members]

    @property
    def scalars(self) -> list[ir.Value]:
        """What all members take besides."""
        return list(self.members[0].operands)[len(self.columns) + 1 :]

    @property
    def state(self) -> list[tuple[Port, ...]]:
        """The state that the group changes in place: the members of each of its arenas."""
        return [column.state for column in self.columns if column.state is not None]

    @property
    def computed(self) -> list[Column]:
        """The columns whose old values are computed."""
        return [column for column in self.columns if column.state is None]

    @property
    def arenas(self) -> Iterator[tuple[str, dict[str, int]]]:
        """For each of `state` an arena: its name, and its members at their offsets."""
        for ports in self.state:
            members = {port.name: offset for port, offset in zip(ports, self.offsets, strict=True)}
            yield f"{self.name}.{_kind(ports[0])}", members

    def flat_type(self, result: int) -> ir.Type:
        """The type of a flat tensor of that result of all members."""
        element = ir.RankedTensorType(self.members[0].results[result].type).element_type
        return ir.RankedTensorType.get([self.length], element)


def groups_of(step: func.FuncOp, updates: Sequence[ir.Operation]) -> list[Group]:
    """The groups of `updates`, each in the place of its first member."""
    (terminator,) = [op.operation for op in step.entry_block.operations if op.operation.name == "func.return"]
    state = {(step.arguments[old.index], terminator.operands[new.index]): old for old, new in mutated_state(step)}
    found: dict[object, list[ir.Operation]] = {}
    ports: dict[ir.Operation, list[Port | None]] = {}
    for op in updates:
        ports[op] = [state.get(pair) for pair in zip(_old_values(op), op.results, strict=True)]
        elements = tuple(str(ir.RankedTensorType(operand.type).element_type) for operand in op.operands)
        scalars = tuple(list(op.operands)[len(op.results) + 1 :])
        is_state = tuple(port is not None for port in ports[op])
        key = (str(op.attributes["kind"]), str(op.attributes["parameters"]), elements, scalars, is_state)
        found.setdefault(key, []).append(op)
    return [_group(f"arena:{i}", members, ports) for i, members in enumerate(found.values())]


def _group(name: str, members: Sequence[ir.Operation], ports: dict[ir.Operation, list[Port | None]]) -> Group:
    offsets, length = _arenas.lay_out([ir.RankedTensorType(op.operands[0].type) for op in members])
    columns: list[Column] = []
    for result in range(len(members[0].results)):
        own = [port for op in members if (port := ports[op][result]) is not None]
        old = tuple(_old_values(op)[result] for op in members)
        columns.append(Column(result, old, tuple(own) or None))
    return Group(name, tuple(members), tuple(columns), tuple(offsets), length)


def _old_values(op: ir.Operation) -> list[ir.Value]:
    """What an update replaces, in the order of its results."""
    return [op.operands[0], *list(op.operands)[2 : len(op.results) + 1]]


def _kind(port: Port) -> str:
    """`parameter`, or the slot of `<parameter>.<slot>`, of whichever rank (`<parameter>.<slot>@1`)."""
    return port.name.rpartition(".")[2].partition("@")[0] if port.role == "optimizer" else port.role
