"""Times of the kernels and movements of form scheduled on a machine, in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.commands.jobs import KIND, operand_of
from dmc.dialect.placements import mesh_of
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.machine import Machine, collective_ns, launch_ns, move_ns
from dmc.mesh import Mesh
from dmc.program import Kernel
from dmc.step_function import symbol


@dataclass(frozen=True)
class TaskCosts:
    """The costs of one module's tasks on `machine`, cached for equal tasks.

    mesh: the module's, None for one rank. kinds: what dominates each kernel's time, by function.
    """

    machine: Machine
    mesh: Mesh | None
    kinds: dict[str, str]
    _known: dict[Any, float] = field(default_factory=dict[Any, float])

    @staticmethod
    def of(module: ir.Module, machine: Machine) -> TaskCosts:
        """Reads mesh and kernel functions of a module."""
        ops = list(module.body.operations)
        meshes = [mesh_of(op) for op in ops if isinstance(op, dm.MeshOp)]
        kinds = {symbol(op): _kind(op) for op in ops if isinstance(op, func.FuncOp)}
        return TaskCosts(machine, meshes[0] if meshes else None, kinds)

    def kernel(self, op: Any) -> float:
        """The time of a `dm.kernel`. Raises DmcError if it does not state its `flops` and `bytes`."""
        if op.flops is None or op.bytes is None:
            raise DmcError(op.operation, "does not state its flops and bytes", "run dm-form-kernels")
        key = (op.body.value, op.flops.value, op.bytes.value, op.implementation)
        if key not in self._known:
            reads, writes = (tuple(operand_of(value.type) for value in values) for values in (op.inputs, op.outputs))
            kind = self.kinds.get(op.body.value, "other")
            by = "iree" if op.implementation is None else op.implementation.value
            kernel = Kernel(op.body.value, reads, writes, op.flops.value, op.bytes.value, implementation=by, kind=kind)
            self._known[key] = launch_ns(self.machine, kernel)
        return self._known[key]

    def movement(self, op: Any) -> float:
        """The time of a `dm.start`'s movement; for a collective that of the slowest group."""
        size = moved_bytes(op)
        if isinstance(op, dm.CopyOp):
            return move_ns(self.machine, op.source.value, op.target.value, size)
        axes = dm.group_axes(op.group)
        key = (op.operation.name, axes, size)
        if key not in self._known:
            assert self.mesh is not None, "a group has a mesh, as the verifier has checked"
            kind = op.operation.name.removeprefix("dm.")
            groups = self.mesh.groups(axes)
            self._known[key] = max(collective_ns(self.machine, kind, group, size) for group in groups)
        return self._known[key]


def moved_bytes(op: Any) -> int:
    """Bytes of the larger of operand and result of a movement."""
    return max(type_bytes(value.type) for value in (*op.operands, *op.results))


def _kind(function: func.FuncOp) -> str:
    attributes = function.operation.attributes
    return ir.StringAttr(attributes[KIND]).value if KIND in attributes else "other"
