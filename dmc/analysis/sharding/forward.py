"""The forward pass of `@step` in form imported: what the loss and the outputs are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding.decisions import LOOP
from dmc.dialect.kinds import kind_of
from dmc.step_function import Port, arguments, results
from dmc.walk import terminator_of, walk

_PARAMETERS = ("parameter", "frozen")
_STATE = (*_PARAMETERS, "buffer")


@dataclass(frozen=True)
class Forward:
    """ops: its operations, in order. values: their results. ports: the arguments of `@step`."""

    ops: tuple[ir.Operation, ...]
    values: frozenset[ir.Value]
    ports: Mapping[ir.Value, Port]

    @staticmethod
    def of(step: func.FuncOp) -> Forward:
        """The operations on which the loss and the auxiliary outputs depend; of a loop, those in its body."""
        (block,) = step.body.blocks
        returned = terminator_of(block).operands
        wanted = [returned[port.index] for port in results(step) if port.name == "loss" or port.name.startswith("aux")]
        values = frozenset(_ancestors(wanted))
        ops = tuple(op for op in walk(step) if any(result in values for result in op.results))
        return Forward(ops, values, {step.arguments[port.index]: port for port in arguments(step)})

    def parameter(self, value: ir.Value) -> Port | None:
        """The argument that a value is, if it is a parameter."""
        port = self.ports.get(value)
        return port if port is not None and port.role in _PARAMETERS else None

    def weight(self, op: ir.Operation) -> int | None:
        """The first operand that is a matrix of the model, as it is or rearranged."""
        sources = (self.parameter(self._source(operand)) for operand in op.operands)
        return next((i for i, port in enumerate(sources) if port is not None and _rank(port) == 2), None)

    def is_of_state(self, value: ir.Value) -> bool:
        """Whether a value is a tensor of the model, as it is or rearranged."""
        source = self._source(value)
        return source in self.ports and self.ports[source].role in _STATE

    def users(self, value: ir.Value) -> Iterator[ir.Operation]:
        """The operations of the forward pass that read a value."""
        every = (use.owner.operation for use in value.uses)
        return (user for user in every if any(result in self.values for result in user.results))

    def composites(self, kind: str) -> Iterator[ir.Operation]:
        """The composites of a kind."""
        return (op for op in self.ops if kind_of(op) == kind)

    def tables(self) -> Iterator[Port]:
        """The parameters of which embeddings take rows."""
        sources = (self.parameter(self._source(op.operands[0])) for op in self.composites("embedding"))
        return (port for port in sources if port is not None)

    def module(self, op: ir.Operation) -> str:
        """The path of the module that an operation comes from; "" if unknown."""
        location = op.location
        return location.name_str.partition("#")[0] if isinstance(location, ir.NameLoc) else ""

    def _source(self, value: ir.Value) -> ir.Value:
        """What a value is a rearrangement or a conversion of: back through operations on a single tensor."""
        while not isinstance(value.owner, ir.Block):
            operands = value.owner.operation.operands
            tensors = [each for each in operands if isinstance(each.type, ir.RankedTensorType) and not is_splat(each)]
            if len(tensors) != 1:
                break
            value = tensors[0]
        return value


def _ancestors(wanted: list[ir.Value]) -> set[ir.Value]:
    """The results of operations from which values are computed, these included."""
    found: set[ir.Value] = set()
    while wanted:
        value = wanted.pop()
        if value in found or isinstance(value.owner, ir.Block):
            continue
        found.add(value)
        op = value.owner.operation
        if op.name == LOOP:
            place = list(op.results).index(value)
            body = op.regions[0].blocks[0]
            wanted += [op.operands[3 + place], terminator_of(body).operands[place]]
        else:
            wanted += list(op.operands)
    return found


def _rank(port: Port) -> int:
    return ir.RankedTensorType(port.type).rank
