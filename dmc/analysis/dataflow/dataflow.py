"""A module's dataflow as plain data, invariant under fusion, outlining, bucketing and scheduling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.dataflow import elements, moves
from dmc.analysis.dataflow.reader import Module, Reader, Rule
from dmc.analysis.labels.storages import label_of_op
from dmc.dialect.iree import FUSION_BARRIER
from dmc.dialect.placements import mesh_of
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.program.dataflow import Body, Call, Choice, Step
from dmc.stages import place_of
from dmc.step_function import STATE_ROLES, arguments, find_step, functions, mutated_state, outputs, symbol
from dmc.walk import walk

_ARITHMETIC = ("arith", "math")
# Other operations of these dialects, which have no effects, are opaque: known by name, attributes and operands.
_OPAQUE = ("linalg", "tensor")


def mesh_of_module(module: ir.Module) -> Mesh:
    """The mesh of the module; one rank where it has none."""
    meshes = [op for op in module.body.operations if isinstance(op, dm.MeshOp)]
    return mesh_of(meshes[0]) if meshes else Mesh(rank=1)


def step_dataflow(module: ir.Module) -> Step:
    """The dataflow of `@step`, with the decompositions of its composites and the bodies of its loops.

    Kernels of form scheduled are called, but their bodies are not read (`kernel_bodies`). Raises DmcError for an
    unsupported operation. Linear in the operations.
    """
    step = find_step(module)
    own = Module({symbol(function): function for function in functions(module)}, mesh_of_module(module))
    ports = arguments(step)
    reader = Reader(own, len(ports))
    for port in ports:
        reader[step.arguments[port.index]] = port.index
    *body, terminator = (view.operation for view in step.entry_block.operations)
    _read_all(reader, body)
    changed = {argument.name: terminator.operands[result.index] for argument, result in mutated_state(step)}
    kept = {port.name: changed.get(port.name, step.arguments[port.index]) for port in ports if port.role in STATE_ROLES}
    given = {port.name: terminator.operands[port.index] for port in outputs(step)}
    state, ends = (
        {name: reader[value] for name, value in each.items() if own.size(value.type)} for each in (kept, given)
    )
    taken = tuple((port.name, own.size(port.type)) for port in ports)
    place = place_of(module)
    ranks = () if place is None else place.ranks(own.mesh)
    return Step(taken, tuple(reader.nodes), state, ends, own.bodies, ranks)


def kernel_bodies(module: ir.Module, names: Iterable[str]) -> dict[str, Body]:
    """The dataflow of each of these functions of the module."""
    own = Module({symbol(function): function for function in functions(module)}, mesh_of_module(module))
    for name in names:
        _read_function(own, name)
    return own.bodies


def _read_function(module: Module, name: str) -> None:
    if name in module.bodies:
        return
    block = module.functions[name].entry_block
    *body, terminator = (view.operation for view in block.operations)
    module.bodies[name] = _body(module, list(block.arguments), body, terminator)


def _body(module: Module, taken: list[ir.Value], body: list[ir.Operation], terminator: ir.Operation) -> Body:
    reader = Reader(module, len(taken), {value: i for i, value in enumerate(taken)})
    _read_all(reader, body)
    return Body(len(taken), tuple(reader.nodes), reader.all(list(terminator.operands)))


def _read_all(reader: Reader, ops: Iterable[ir.Operation]) -> None:
    for op in ops:
        rule = _RULES.get(op.name)
        if rule is None:
            rule = _default(op)
        rule(reader, op)


def _default(op: ir.Operation) -> Rule:
    dialect = op.name.partition(".")[0]
    if dialect in _ARITHMETIC:
        return elements.read_arithmetic
    if dialect in _OPAQUE:
        return Reader.opaque
    raise DmcError(op, "is an operation whose dataflow is not known", "lower it to operations of linalg or tensor")


def _read_composite(reader: Reader, op: ir.Operation) -> None:
    attribute = "decomposition" if op.name == dm.CompositeOp.OPERATION_NAME else "callee"
    name = ir.FlatSymbolRefAttr(op.attributes[attribute]).value
    _read_function(reader.module, name)
    _add_call(reader, op, Call(name, reader.all(list(op.operands))))


def _read_kernel(reader: Reader, op: ir.Operation) -> None:
    view: Any = op.opview
    operands, label = reader.all(list(op.operands)), label_of_op(op)
    if view.variants is None:
        _add_call(reader, op, Call(view.body.value, operands, label))
        return
    choices = tuple(Call(name.value, operands, label) for name in view.variants)
    _add_call(reader, op, Choice(tuple(dm.group_axes(view.group)), choices))


def _add_call(reader: Reader, op: ir.Operation, call: Call | Choice) -> None:
    first = reader.add(call, len(op.results))
    reader.numbers.update((result, first + i) for i, result in enumerate(op.results))


def _read_loop(reader: Reader, op: ir.Operation) -> None:
    """A loop with constant bounds is the sequence of its iterations."""
    first, last, step = (_bound(op, i) for i in range(3))
    block = op.regions[0].blocks[0]
    *body, terminator = (view.operation for view in block.operations)
    captured = _captured(op)
    name = f"loop {len(reader.module.bodies)}"
    reader.module.bodies[name] = Body(0, (), ())
    reader.module.bodies[name] = _body(reader.module, [*block.arguments, *captured], body, terminator)
    carried, shared = reader.all(list(op.operands)[3:]), reader.all(captured)
    index = block.arguments[0].type
    for number in range(first, last, step):
        at = reader.pointwise(f"arith.constant {number} : {index}", (), reader.module.size(index))
        result = reader.add(Call(name, (at, *carried, *shared)), len(carried))
        carried = tuple(range(result, result + len(carried)))
    reader.numbers.update(zip(op.results, carried, strict=True))


def _bound(op: ir.Operation, index: int) -> int:
    owner = op.operands[index].owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        raise DmcError(op, "is a loop whose bounds are not constant", "give the loop a fixed length")
    return ir.IntegerAttr(owner.attributes["value"]).value


def _captured(op: ir.Operation) -> list[ir.Value]:
    """The values that the regions of an operation use from outside it, each once."""
    inside: set[ir.Value] = set()
    found: dict[ir.Value, None] = {}
    for inner in walk(op):
        if inner != op:
            found.update((value, None) for value in inner.operands if value not in inside)
        inside.update(inner.results)
        inside.update(argument for region in inner.regions for block in region for argument in block.arguments)
    return list(found)


_RULES: dict[str, Rule] = {
    "arith.constant": elements.read_constant,
    "tensor.empty": elements.read_empty,
    "tensor.extract": elements.read_extract,
    "tensor.expand_shape": moves.read_same,
    "tensor.collapse_shape": moves.read_same,
    "tensor.extract_slice": moves.read_slice,
    "tensor.insert_slice": moves.read_insert,
    "tensor.concat": moves.read_concat,
    "linalg.fill": elements.read_fill,
    "linalg.generic": elements.read_generic,
    "linalg.transpose": moves.read_transpose,
    FUSION_BARRIER: moves.read_same,
    dm.AllSliceOp.OPERATION_NAME: moves.read_all_slice,
    dm.StartOp.OPERATION_NAME: moves.read_start,
    dm.WaitOp.OPERATION_NAME: moves.read_same,
    dm.PackOp.OPERATION_NAME: moves.read_pack,
    dm.UnpackOp.OPERATION_NAME: moves.read_unpack,
    dm.KernelOp.OPERATION_NAME: _read_kernel,
    dm.CompositeOp.OPERATION_NAME: _read_composite,
    "func.call": _read_composite,
    "scf.for": _read_loop,
    **moves.MOVEMENTS,
}
