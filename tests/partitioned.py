"""For tests of placement: a step whose arguments are placed on a mesh, and its run on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from numpy.typing import NDArray

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.sharding.ends import SHARDING
from dmc.dialect.placements import placement_of, sharding_of
from dmc.interpreter import spmd
from dmc.mesh import Mesh
from dmc.passes.placed.fold_collectives import FoldCollectives
from dmc.passes.placed.lower_reshard import LowerReshard
from dmc.passes.placed.partition import Partition
from dmc.passes.placed.propagate_sharding import PropagateSharding
from dmc.placement.placement import Placement
from dmc.step_function import NAME, find_step
from tests.placements import gathered, part_of

Array = NDArray[Any]


def place(module: ir.Module, mesh: Mesh, placements: Mapping[str, Placement]) -> None:
    """Declares the mesh and places the arguments of `@step` by shell patterns over their names."""
    step = find_step(module)
    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
        links = ["memory"] * len(mesh.axes)
        dm.mesh(sym_name="mesh", axes=mesh.axes, sizes=mesh.sizes, device="cpu", links=links)
    placed: list[ir.Attribute] = []
    used: set[str] = set()
    for given in step.arg_attrs:
        attributes = {each.name: each.attr for each in given}
        for pattern, placement in placements.items():
            if fnmatch(ir.StringAttr(given[NAME]).value, pattern):
                attributes[SHARDING] = sharding_of(placement, "mesh")
                used.add(pattern)
        placed.append(ir.DictAttr.get(attributes))
    assert used == set(placements), "a pattern matches nothing"
    step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(placed)


def run_on_one_rank(module: ir.Module, arguments: Sequence[Array]) -> list[Array]:
    """The results of `@step` of form imported, without a mesh."""
    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op
        for op in (view.operation for view in module.body.operations)
        if op.name == "func.func"
    }
    return spmd.Interpreter(Mesh(one=1), functions).run(functions["step"], [arguments]).results[0]


def run_on_all_ranks(module: ir.Module, mesh: Mesh, arguments: Sequence[Array]) -> tuple[list[Array], int]:
    """Places, partitions and lowers `module`, runs it, and gives the whole results and the bytes that were sent.

    Asserts that ranks that should hold the same do.
    """
    PropagateSharding().run(module)
    Partition().run(module)
    for check in range(2):
        module.operation.verify()
        dm.verify_symbols(module)
        if check == 0:
            LowerReshard().run(module)
            FoldCollectives().run(module)
    step = find_step(module)
    coming = [placement_of(each[SHARDING]) for each in step.arg_attrs]
    leaving = [placement_of(each[SHARDING]) for each in step.operation.attributes["res_attrs"]]
    given = [
        [part_of(array, placement, mesh, rank) for array, placement in zip(arguments, coming, strict=True)]
        for rank in mesh.ranks
    ]
    run = spmd.run(module, "step", given)
    results: list[Array] = []
    for i, placement in enumerate(leaving):
        parts = [own[i] for own in run.results]
        results.append(gathered(placement, mesh, placement.whole_shape(mesh, parts[0].shape), parts))
    return results, run.bytes
