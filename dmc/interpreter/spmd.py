"""Runs modules of `dm` value by value: one program, all ranks of its mesh, numpy arrays, and a count of what was sent.

It supports the value level: collectives, `dm.all_slice`, composites by their decompositions, loops, and the operations
of `dmc/interpreter/tensors.py`; and form scheduled: starts, waits, buckets (`buckets.py`) and kernels by their bodies.
A movement is executed when it starts, since values are immutable; `interpreter.py` covers orders of lanes. A
reduction's traffic is that of a direct algorithm: every rank reduces a piece and, for an all-reduce, sends it to all
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.placements import mesh_of
from dmc.dtypes import numpy_type
from dmc.errors import DmcError
from dmc.interpreter import buckets
from dmc.interpreter.tensors import evaluate
from dmc.mesh import Mesh
from dmc.program.collectives import combined

Array = NDArray[Any]
# One rank's values.
Values = dict[Any, Any]
# Called for each finished operation, with its results on each rank.
Watch = Callable[[Any, Sequence[Sequence[Array]]], None]


@dataclass
class Network:
    """Moves arrays between the members of a group and counts the bytes that leave a rank."""

    bytes: int = 0

    def send(self, array: Array, source: int, target: int) -> Array:
        """`array`, as it arrives at `target`."""
        self.bytes += array.nbytes if source != target else 0
        return array


@dataclass(frozen=True)
class Run:
    """The results of every rank, by rank and by result, and the number of bytes sent."""

    results: list[list[Array]]
    bytes: int


@dataclass(frozen=True)
class Group:
    """The members' operands, in the order of the group, and the network between them."""

    operands: list[Array]
    network: Network

    @property
    def size(self) -> int:
        return len(self.operands)

    def exchange(self, pieces: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Member i sends `pieces[i][j]` to member j; returns what each member received, in the order of senders."""
        members = range(self.size)
        return [[self.network.send(pieces[i][j], i, j) for i in members] for j in members]


@dataclass(frozen=True)
class Interpreter:
    """Runs functions of a module on a mesh, operation by operation on all ranks."""

    mesh: Mesh
    functions: Mapping[str, Any]
    network: Network = field(default_factory=Network)
    watch: Watch | None = None

    def run(self, function: Any, arguments: Sequence[Sequence[Array]]) -> Run:
        """Runs `function` with `arguments[rank]` on every rank."""
        return Run(self._call(function, arguments), self.network.bytes)

    def _call(self, function: Any, arguments: Sequence[Sequence[Array]]) -> list[list[Any]]:
        block = function.regions[0].blocks[0]
        return self._block(block, [dict(zip(block.arguments, given, strict=True)) for given in arguments])

    def _block(self, block: Any, values: list[Values]) -> list[list[Any]]:
        """Runs a block on `values[rank]`; returns the operands of its terminator."""
        *body, terminator = [view.operation for view in block.operations]
        for op in body:
            made = self._op(op, values)
            for own, results in zip(values, made, strict=True):
                for result, array in zip(op.results, results, strict=True):
                    _check_type(result.type, array)
                    own[result] = array
            if self.watch is not None:
                self.watch(op, made)
        return [[own[value] for value in terminator.operands] for own in values]

    def _op(self, op: Any, values: list[Values]) -> list[list[Any]]:
        if op.name in RULES:
            return self._collective(op.opview, values)
        if op.name == "dm.composite":
            function = self.functions[op.attributes["decomposition"].value]
            return self._call(function, [[own[operand] for operand in op.operands] for own in values])
        if op.name in self._PARTS:
            return self._PARTS[op.name](self, op, values)
        rules = buckets.RULES
        return [rules[op.name](op.opview, own) if op.name in rules else evaluate(op, own) for own in values]

    def _collective(self, op: Any, values: list[Values]) -> list[list[Any]]:
        results: list[list[Any]] = [[] for _ in values]
        for ranks in self.mesh.groups(dm.group_axes(op.group)):
            group = Group([values[rank][op.operands[0]] for rank in ranks], self.network)
            for rank, result in zip(ranks, RULES[op.operation.name](op, group), strict=True):
                results[rank] = [result]
        return results

    def _kernel(self, op: Any, values: list[Values]) -> list[list[Any]]:
        """Every rank runs the body, or the variant for its place in the group."""
        given = [[own[operand] for operand in op.operands] for own in values]
        kernel = op.opview
        if kernel.variants is None:
            return self._call(self.functions[kernel.body.value], given)
        axes = dm.group_axes(kernel.group)
        places = [self.mesh.index_in_group(rank, axes) for rank in self.mesh.ranks]
        by_place = [self._call(self.functions[each.value], given) for each in kernel.variants]
        return [by_place[place][rank] for rank, place in enumerate(places)]

    def _start(self, op: Any, values: list[Values]) -> list[list[Any]]:
        """The handle is the value to be delivered, the token nothing."""
        (block,) = op.regions[0].blocks
        inputs = len(block.arguments)
        given = [[own[operand] for operand in list(op.operands)[:inputs]] for own in values]
        delivered = self._block(block, [dict(zip(block.arguments, each, strict=True)) for each in given])
        return [[*each, None] for each in delivered]

    def _loop(self, op: Any, values: list[Values]) -> list[list[Any]]:
        block = op.regions[0].blocks[0]
        first, last, step = (int(values[0][operand]) for operand in list(op.operands)[:3])
        carried = [[own[operand] for operand in list(op.operands)[3:]] for own in values]
        for i in range(first, last, step):
            for own, given in zip(values, carried, strict=True):
                own.update(zip(block.arguments, [np.int64(i), *given], strict=True))
            carried = self._block(block, values)
        return carried

    _PARTS: ClassVar[dict[str, Callable[[Interpreter, Any, list[Values]], list[list[Any]]]]] = {
        "dm.kernel": _kernel,
        "dm.start": _start,
        "scf.for": _loop,
    }


def _check_type(type_: Any, array: Any) -> None:
    if isinstance(type_, dm.TokenType):
        return
    if isinstance(type_, dm.HandleType):
        type_ = ir.TypeAttr(type_.params[0]).value
    assert list(getattr(type_, "shape", ())) == list(array.shape)
    assert numpy_type(str(getattr(type_, "element_type", type_))) == array.dtype


def _all_gather(op: Any, group: Group) -> list[Array]:
    got = group.exchange([[operand] * group.size for operand in group.operands])
    return [np.concatenate(pieces, axis=op.dim.value) for pieces in got]


def _all_slice(op: Any, group: Group) -> list[Array]:
    wide = [operand.astype(np.float64) for operand in group.operands]  # NaN equals NaN there.
    for operand in wide[1:]:
        if not np.array_equal(operand, wide[0], equal_nan=True):
            raise DmcError(op, "takes slices of a value that differs between ranks", hint="reduce or gather it first")
    return [np.split(operand, group.size, op.dim.value)[i] for i, operand in enumerate(group.operands)]


def _all_to_all(op: Any, group: Group) -> list[Array]:
    got = group.exchange([np.split(operand, group.size, op.split_dim.value) for operand in group.operands])
    return [np.concatenate(pieces, axis=op.concat_dim.value) for pieces in got]


def _reduce_scatter(op: Any, group: Group) -> list[Array]:
    got = group.exchange([np.split(operand, group.size, op.dim.value) for operand in group.operands])
    return [_combine(op, pieces) for pieces in got]


def _all_reduce(op: Any, group: Group) -> list[Array]:
    shape = group.operands[0].shape
    got = group.exchange([np.array_split(operand.reshape(-1), group.size) for operand in group.operands])
    reduced = [_combine(op, pieces) for pieces in got]
    whole = group.exchange([[piece] * group.size for piece in reduced])
    return [np.concatenate(pieces).reshape(shape) for pieces in whole]


def _broadcast(op: Any, group: Group) -> list[Array]:
    root = op.root.value
    return [group.network.send(group.operands[root], root, i) for i in range(group.size)]


def _permute(op: Any, group: Group) -> list[Array]:
    results = [np.zeros_like(operand) for operand in group.operands]
    for source, target in np.array(op.source_target_pairs).tolist():
        results[target] = group.network.send(group.operands[source], source, target)
    return results


def _combine(op: Any, contributions: Sequence[Array]) -> Array:
    """The reduction of an op, in its type `accumulate` and in rank order."""
    return combined(op.reduction.value, contributions, numpy_type(str(op.accumulate.value)))


RULES: dict[str, Callable[[Any, Group], list[Array]]] = {
    "dm.all_gather": _all_gather,
    "dm.all_slice": _all_slice,
    "dm.all_to_all": _all_to_all,
    "dm.reduce_scatter": _reduce_scatter,
    "dm.all_reduce": _all_reduce,
    "dm.broadcast": _broadcast,
    "dm.permute": _permute,
}


def run(
    module: ir.Module,
    name: str,
    arguments: Sequence[Sequence[Array]],
    mesh: Mesh | None = None,
    watch: Watch | None = None,
) -> Run:
    """Runs function `name` of a module: `arguments[rank]` are the arguments of that rank.

    mesh: overrides the module's. watch: called for each finished operation.
    """
    meshes = [mesh_of(op) for op in module.body.operations if isinstance(op, dm.MeshOp)]
    functions = {
        op.attributes["sym_name"].value: op for op in module.body.operations if op.operation.name == "func.func"
    }
    (found,) = [mesh] if mesh is not None else meshes or [Mesh(rank=1)]
    return Interpreter(found, functions, watch=watch).run(functions[name], arguments)
