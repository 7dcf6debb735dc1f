"""For tests of scheduling passes: what `@step` computes does not change (V9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.dataflow.dataflow import kernel_bodies, mesh_of_module, step_dataflow
from dmc.mesh import Mesh
from dmc.passes.base import Element, run_passes
from dmc.passes.scheduled.select_kernels import bodies
from dmc.program.dataflow import Body, Step
from dmc.proof.meaning import Meaning
from dmc.proof.values import Values
from dmc.step_function import find_step


@dataclass(frozen=True)
class Said:
    """What a step computes. kernels: the bodies of its kernels, by name."""

    mesh: Mesh
    step: Step
    kernels: dict[str, Body]

    def differences(self, other: Said) -> list[str]:
        """The state and outputs that are not the same in both on every rank."""
        values = Values()
        mine, theirs = self._ends(values), other._ends(values)
        return sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))

    def _ends(self, values: Values) -> dict[str, list[int]]:
        held = Meaning(self.mesh, values, {**self.kernels, **self.step.functions}).of_step(self.step)
        ends = {**self.step.state, **self.step.outputs}
        return {name: [own[number] for own in held.values()] for name, number in ends.items()}


def said(module: ir.Module) -> Said:
    """What the module computes, before its kernels are formed or after."""
    kernels = [op for op in find_step(module).entry_block.operations if isinstance(op, dm.KernelOp)]
    names = dict.fromkeys(name for op in kernels for name in bodies(op))
    return Said(mesh_of_module(module), step_dataflow(module), kernel_bodies(module, names))


def assert_meaning_kept(module: ir.Module, passes: Sequence[Element]) -> None:
    """Runs passes on a module whose kernels are formed, one by one; none changes what a result is made of."""
    before = said(module)
    for element in passes:
        run_passes(module, [element])
        assert before.differences(said(module)) == [], f"{element} changes these"
