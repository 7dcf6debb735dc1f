"""V9: what `@step` computes, apart from when: equal before and after every pass that only schedules.

The results as a dataflow graph in which equal parts are one (hash-consing), modulo the order of operations, start and
wait, copies between memory spaces, buckets and the kernels that fill and empty them, reshapes and contiguous slices,
and an all-reduce as reduce-scatter and all-gather (`dmc.analysis.segments`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.moved_data import is_moving, moved
from dmc.analysis.pieces import RESHAPES, is_view, piece_offset
from dmc.analysis.segments import Atom, Movements, Row, digest, part, placed, whole
from dmc.dialect.collectives import permute_sources_and_targets
from dmc.dialect.movement import movement_of
from dmc.dialect.placements import mesh_of
from dmc.dialect.plan import element_bytes
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.step_function import arguments, find_step, functions, results, symbol


@dataclass(frozen=True)
class Meaning:
    """A name for what each result of a step is, and for each message that it sends; equal names, equal content."""

    results: Mapping[str, bytes]
    messages: Mapping[str, bytes]

    def differences(self, other: Meaning) -> list[str]:
        """The results and messages that are not the same in both."""
        pairs = ((self.results, other.results), (self.messages, other.messages))
        return [
            name for mine, theirs in pairs for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)
        ]


def meaning(module: ir.Module) -> Meaning:
    """What the `@step` of a module computes, once its kernels are formed. Raises DmcError for what it cannot follow.

    Linear in the number of operations, times the members of buckets.
    """
    step = find_step(module)
    meshes = [op for op in module.body.operations if isinstance(op, dm.MeshOp)]
    mesh = mesh_of(meshes[0]) if meshes else Mesh(rank=1)
    walk = _Walk({symbol(function): function for function in functions(module)}, Movements(mesh.group_size))
    for port in arguments(step):
        walk.rows[step.arguments[port.index]] = whole(Atom(digest("argument", port.name)), prod(port.type.shape))
    *body, terminator = (view.operation for view in step.entry_block.operations)
    for op in body:
        walk.visit(op)
    given = {
        port.name: digest(str(port.type), walk.rows[terminator.operands[port.index]].digest()) for port in results(step)
    }
    return Meaning(given, walk.messages)


@dataclass
class _Walk:
    functions: Mapping[str, func.FuncOp]
    movements: Movements
    rows: dict[ir.Value, Row] = field(default_factory=dict)
    messages: dict[str, bytes] = field(default_factory=dict)
    _bodies: dict[str, bytes] = field(default_factory=dict)

    def visit(self, op: ir.Operation) -> None:
        """Says what the results of an operation of `@step` are."""
        given = [self.rows[operand] for operand in op.operands if operand in self.rows]
        match op.opview:
            case dm.StartOp():
                movement = movement_of(op.opview).operation
                self.rows[op.results[0]] = self._moved(movement, given[:1])
            case dm.WaitOp():
                if len(op.results):
                    self.rows[op.results[0]] = given[0]
            case dm.PackOp():
                offsets = list(op.opview.offsets)
                self.rows[op.results[0]] = placed(list(zip(offsets, given, strict=True)), _size(op.results[0]))
            case dm.UnpackOp():
                for result, offset in zip(op.results, op.opview.offsets, strict=True):
                    self.rows[result] = part(given[0], offset, _size(result))
            case dm.KernelOp():
                self.rows.update(zip(op.results, self._computed(op, given), strict=True))
            case _ if is_view(op):
                self.rows[op.results[0]] = self._shown(op, given[0])
            case _ if op.name in _MOVEMENTS:
                self.rows.update({result: self._moved(op, given) for result in op.results})
            case _:
                raise DmcError(op, "is no operation of a step with kernels", "run dm-form-kernels first")

    def _shown(self, op: ir.Operation, whole_row: Row) -> Row:
        if op.name in RESHAPES:
            return whole_row
        if isinstance(op.opview, dm.AllSliceOp):
            return self.movements.own_piece(whole_row, dm.group_axes(op.opview.group))
        element = element_bytes(op.results[0].type.element_type)
        return part(whole_row, piece_offset(op) // element, _size(op.results[0]))

    def _moved(self, op: ir.Operation, given: Sequence[Row]) -> Row:
        if op.name not in _MOVEMENTS:
            raise DmcError(op, "is no movement that can be followed")
        return _MOVEMENTS[op.name](self, op, given)

    def _computed(self, op: ir.Operation, given: Sequence[Row]) -> list[Row]:
        kernel: Any = op.opview
        body = self.functions[kernel.body.value]
        if kernel.variants is None and is_moving(body):
            return moved(body, given)
        names = [kernel.body.value] if kernel.variants is None else [name.value for name in kernel.variants]
        group = () if kernel.group is None else dm.group_axes(kernel.group)
        operands = [row.digest() for row in given]
        code = [self._body(name) for name in names]
        return [
            whole(Atom(digest("kernel", code, group, operands, number)), _size(result))
            for number, result in enumerate(op.results)
        ]

    def _body(self, name: str) -> bytes:
        """A name for a function's code: its type and its text behind the line with its symbol.

        MLIR numbers values in their order, so equal code is equal text.
        """
        if name not in self._bodies:
            function = self.functions[name].operation
            _, _, code = function.get_asm(use_local_scope=True).strip().partition("\n")
            self._bodies[name] = digest(str(function.attributes["function_type"]), code)
        return self._bodies[name]


_Rule = Callable[[_Walk, ir.Operation, Sequence[Row]], Row]


def _all_reduce(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    return walk.movements.reduced(given[0], dm.group_axes(op.attributes["group"]), _reduction(op))


def _reduce_scatter(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    return walk.movements.own_piece(_all_reduce(walk, op, given), _axes_of_rows(op, "dim"))


def _all_gather(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    return walk.movements.gathered(given[0], _axes_of_rows(op, "dim"))


def _all_to_all(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    _axes_of_rows(op, "split_dim")
    return walk.movements.exchanged(given[0], _axes_of_rows(op, "concat_dim"))


def _broadcast(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    return walk.movements.at(given[0], dm.group_axes(op.attributes["group"]), op.opview.root.value)


def _permute(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    pairs = permute_sources_and_targets(op.opview)
    return walk.movements.permuted(given[0], dm.group_axes(op.attributes["group"]), pairs)


def _copy(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    return given[0]


def _send(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    name = f"message {op.opview.instance.value} along {dm.group_axes(op.attributes['group'])}"
    walk.messages[name] = digest(op.opview.target.value, given[0].digest())
    return Row(())


def _recv(walk: _Walk, op: ir.Operation, given: Sequence[Row]) -> Row:
    message = ("recv", op.opview.instance.value, op.opview.source.value, dm.group_axes(op.attributes["group"]))
    return whole(Atom(digest(*message)), _size(op.results[0]))


def _reduction(op: ir.Operation) -> tuple[str, str]:
    return str(op.attributes["reduction"]), str(op.attributes["accumulate"])


def _axes_of_rows(op: ir.Operation, dim: str) -> tuple[str, ...]:
    """The axes of a collective whose pieces are contiguous; raises DmcError for another."""
    shape = op.operands[0].type.shape
    if prod(shape[: op.attributes[dim].value]) != 1:
        raise DmcError(op, f"acts on dimension {op.attributes[dim].value}", "run dm-flatten-collectives first")
    return dm.group_axes(op.attributes["group"])


_MOVEMENTS: dict[str, _Rule] = {
    dm.AllReduceOp.OPERATION_NAME: _all_reduce,
    dm.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
    dm.AllGatherOp.OPERATION_NAME: _all_gather,
    dm.AllToAllOp.OPERATION_NAME: _all_to_all,
    dm.BroadcastOp.OPERATION_NAME: _broadcast,
    dm.PermuteOp.OPERATION_NAME: _permute,
    dm.CopyOp.OPERATION_NAME: _copy,
    dm.SendOp.OPERATION_NAME: _send,
    dm.RecvOp.OPERATION_NAME: _recv,
}


def _size(value: ir.Value) -> int:
    return prod(value.type.shape)
