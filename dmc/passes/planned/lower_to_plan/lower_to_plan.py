"""dm-lower-to-plan: the step becomes one program per rank, on byte ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.commands.jobs import BYTES, FLOPS, IMPLEMENTATION, SCRATCH, channel_of
from dmc.analysis.kernels.decompositions import decompositions
from dmc.analysis.memory.buffers import Held, buffers_of
from dmc.dialect.placements import mesh_of
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.passes.base import Pass
from dmc.passes.planned.lower_to_plan.rank_programs import first_program
from dmc.passes.shared.programs import write_program
from dmc.program import Await, Buffer, Class, Job, Program, Range, Record
from dmc.stages import place_of
from dmc.step_function import find_step, functions, symbol
from dmc.walk import listed

_OF_LAUNCHES = {"flops": FLOPS, "bytes": BYTES, "scratch": SCRATCH, "implementation": IMPLEMENTATION}


@dataclass(frozen=True)
class LowerToPlan(Pass):
    """Turns `@step`, whose values have addresses, into one `dm.program` for all ranks of the mesh.

    `%y = dm.kernel(%x) {body = @f}` becomes `dm.launch {kernel = @f, reads = […], writes = […]}` on lane compute; the
    movement in a `dm.start` becomes `dm.collective` on the lane of its channel, or `dm.move` on that of its queue. What
    differs between ranks, slices and variants of kernels, is said beside what the first rank has. A wait emits nothing:
    lanes run freely until dm-place-events orders them. New state that is not in its slot is copied there at the end.
    """

    name = "dm-lower-to-plan"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a value without an address, and for operations that do not belong to form scheduled."""
        step = find_step(module)
        meshes = [op for op in module.body.operations if isinstance(op, dm.MeshOp)]
        mesh = mesh_of(meshes[0]) if meshes else Mesh(rank=1)
        place = place_of(module)
        ranks = tuple(mesh.ranks) if place is None else place.ranks(mesh)
        lowered, firsts = first_program(step, mesh, ranks[0])
        program = _with_buffers(lowered, firsts, buffers_of(step))
        channels = tuple(map(channel_of, (op for op in module.body.operations if isinstance(op, dm.ChannelOp))))
        job = Job(dict(mesh.items()), channels, {}, (Class(ranks, program),))
        _describe_kernels(module, step)
        with ir.InsertionPoint(module.body), step.location:
            name = meshes[0].sym_name.value if meshes else ""
            write_program(job, job.classes[0], _locations(step, program, firsts), name)
        step.operation.erase()
        _drop_unused(module, {launch.kernel for _, launch in job.launches()})


def _with_buffers(program: Program, firsts: Sequence[int], held: Sequence[Held]) -> Program:
    """The program with its buffers; `firsts` are the first commands of the operations of @step."""
    end = len(program.commands) - 1
    begins = {(each.space, each.offset, each.length, each.first) for each in held}
    buffers: list[Buffer] = []
    for each in held:
        if not each.length:
            continue
        # An in-place kernel reads the old value while it writes the new one: both are live.
        last = each.last + ((each.space, each.offset, each.length, each.last + 1) in begins)
        first = min(firsts[each.first], end)
        # What the terminator does not read is gone when new state is copied into its slot.
        behind = firsts[last + 1] if last + 1 < len(firsts) else end + 1
        where = Range(each.space, each.offset, each.length)
        buffers.append(Buffer(each.label, each.category, where, first, max(behind - 1, first)))
    return msgspec.structs.replace(program, buffers=tuple(buffers))


def _locations(step: func.FuncOp, program: Program, firsts: Sequence[int]) -> Iterator[ir.Location]:
    """The location of each launch, move and collective; `firsts` are the first commands of the operations of @step."""
    ends = [*firsts[1:], len(program.commands)]
    for op, first, end in zip(step.entry_block.operations, firsts, ends, strict=True):
        works = [each for each in program.commands[first:end] if not isinstance(each, Record | Await)]
        yield from (op.location for _ in works)


def _describe_kernels(module: ir.Module, step: func.FuncOp) -> None:
    """Copies attributes of `dm.kernel` to the functions of kernels. Raises DmcError where two kernels disagree."""
    by_name = {symbol(function): function.operation for function in functions(module)}
    for op in listed(step):
        if op.name != dm.KernelOp.OPERATION_NAME:
            continue
        for name in op.attributes["variants"] if "variants" in op.attributes else [op.attributes["body"]]:
            _describe(by_name[name.value], op)


def _describe(function: ir.Operation, kernel: ir.Operation) -> None:
    for source, target in _OF_LAUNCHES.items():
        if source not in kernel.attributes:
            continue
        if target in function.attributes and function.attributes[target] != kernel.attributes[source]:
            fact = f"has {source} = {kernel.attributes[source]}, another kernel {function.attributes[target]}"
            raise DmcError(kernel, fact, "kernels with the same body must agree")
        function.attributes[target] = kernel.attributes[source]


def _drop_unused(module: ir.Module, kernels: set[str]) -> None:
    wanted = kernels.union(decompositions(module, kernels))
    for function in functions(module):
        if symbol(function) not in wanted:
            function.operation.erase()
