"""dm-form-kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.kernels.cost import work_of
from dmc.analysis.kernels.fusion.greedy import MOST_JOINED, Homes, fuse
from dmc.analysis.kernels.graph import Graph, Kind, step_graph
from dmc.analysis.requests.settings import target_of
from dmc.analysis.requests.verbs import roots_of, verbs_of
from dmc.dialect.labels import module_path, put_kernel_label
from dmc.passes.base import NESTED, Pass, run_passes
from dmc.passes.scheduled.form_kernels.bodies import Bodies, SharedFunctions
from dmc.passes.scheduled.form_kernels.outline import Outline, outline
from dmc.passes.scheduled.form_kernels.report import print_reasons
from dmc.passes.scheduled.form_kernels.transposed_batches import join_batches_first
from dmc.passes.scheduled.form_kernels.whole_composites import form_whole_composites
from dmc.passes.shared.loops import copy_with
from dmc.plans.verbs import KeepApart
from dmc.stages import place_of
from dmc.step_function import MUTABLE_ROLES, arguments, find_step, results
from dmc.target import targets


@dataclass(frozen=True)
class FormKernels(Pass):
    """Turns all computation of `@step` into kernels: `dm.kernel`s that run private functions.

    `%y = linalg.generic … ins(%x)` becomes `%y = "dm.kernel"(%x) {body = @elementwise_0}`. Kernels that compute the
    same share one function. Constants become part of the bodies. Collectives stay, and so do reshapes and contiguous
    slices between kernels, which cost nothing. A slice that differs between ranks is a kernel with variants. A
    composite kept whole is a kernel of its own, with the surrounding slices and transpositions that its implementation
    supports.

    What saves the most bytes through device memory is fused first, but nothing of modules that the plan keeps apart
    (`dm.verbs`) with what is not of them. reasons: print on stderr the bytes through device memory before and after,
    the kernels of each kind, and what prevented the largest remaining fusions.
    """

    name = "dm-form-kernels"
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for loops and calls, which earlier passes must have removed."""
        run_passes(module, ("convert-elementwise-to-linalg",), NESTED)
        step = find_step(module)
        join_batches_first(step)
        shared = SharedFunctions(module)
        apart = verbs_of(module, KeepApart)
        form_whole_composites(step, shared, apart)
        machines = targets(target_of(module))
        has_kernels = all(each.has_kernels for each in machines)
        graph = step_graph(step, has_kernels)
        computed = (i for i, kind in enumerate(graph.kinds) if kind in (Kind.COMPUTE, Kind.CONSTANT))
        works = {i: graph.fact(work_of, i) for i in computed}
        bodies = Bodies(shared, graph, works, dm.Symbols.of(module))
        *_, terminator = step.entry_block.operations
        most_values = min(each.most_values for each in machines)
        fusion = fuse(graph, most_values, MOST_JOINED if has_kernels else 0, has_kernels, _homes(apart, graph))
        units = outline(graph, fusion.groups, _replaced(step, module)).units
        if self.reasons:
            print_reasons(graph, works, units, fusion.refusals())
        _Step(graph, bodies, terminator.operation).rewrite(units)


def _homes(apart: Sequence[KeepApart], graph: Graph) -> Homes:
    """For each operation the modules around it that the plan keeps apart."""
    return [roots_of(apart, module_path(op.location)) for op in graph.ops] if apart else ()


def _replaced(step: func.FuncOp, module: ir.Module) -> dict[ir.Value, ir.Value]:
    """New values of state that need not wait for the end of the step, and the arguments that they replace.

    In a stage of a pipeline they wait: what another stage is sent comes first.
    """
    if place_of(module) is not None:
        return {}
    *_, terminator = step.entry_block.operations
    state = {port.name: step.arguments[port.index] for port in arguments(step) if port.role in MUTABLE_ROLES}
    return {terminator.operands[port.index]: state[port.name] for port in results(step) if port.name in state}


@dataclass
class _Step:
    graph: Graph
    bodies: Bodies
    terminator: ir.Operation
    new: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def rewrite(self, units: Iterable[Outline | int]) -> None:
        with ir.InsertionPoint(self.terminator):
            for unit in units:
                if isinstance(unit, Outline):
                    self.kernel(unit)
                else:
                    self.keep(unit)
            values = [self.value(value) for value in self.graph.returned]
        for i, value in enumerate(values):
            self.terminator.operands[i] = value
        for op in reversed(self.graph.ops):
            op.erase()

    def kernel(self, unit: Outline) -> None:
        made = self.bodies.get(unit)
        main = self.graph.ops[unit.members[made.main]]
        op = dm.kernel(
            [self.value(value) for value in unit.inputs],
            outputs=[value.type for value in unit.outputs],
            body=made.names[0],
            variants=None if made.group is None else made.names,
            group=made.group,
            flops=made.flops,
            bytes=made.bytes,
            loc=main.location,
        )
        put_kernel_label(op.operation, module_path(main.location))
        self.new.update(zip(unit.outputs, op.operation.results, strict=True))

    def keep(self, number: int) -> None:
        """Copies an operation to the insertion point: the graph keeps the original for bodies created later."""
        op = self.graph.ops[number]
        values = {value: self.value(value) for value in self.graph.reads[number]}
        self.new.update(zip(op.results, copy_with(op, values).results, strict=True))

    def value(self, value: ir.Value) -> ir.Value:
        """The new value for an old one; a view is copied on first use."""
        if value in self.new:
            return self.new[value]
        number = self.graph.made_by.get(value)
        if number is None:
            return value
        if self.graph.kinds[number] is Kind.BARRIER:
            return self.value(self.graph.ops[number].operands[0])
        assert self.graph.kinds[number] is Kind.VIEW, f"{self.graph.ops[number]} is not a view"
        self.keep(number)
        return self.new[value]
