"""dm-link-ranks: all ranks of a job in one process, on one IREE device, in one memory, where nothing is sent.

One IREE device for each rank was tried, with IREE 3.13. A `--iree-hal-target-device=rank0=local[0]` for each rank,
`iree.abi.affinity` on arguments and results and `flow.tensor.transfer` at each change of rank are enough: IREE places
all else by its operands, loops too, keeps updates in place, and makes each transfer one copy; programs ran with 2 and 4
devices, bit for bit as they should. But it does not place what depends on no argument:

* two ranks that fill equal tensors share one `flow.tensor.empty` or splat, for IREE eliminates common subexpressions
  whatever `stream.affinity` says; if both then insert slices into it (any concatenation), the slices may get no device,
  and the compiler stops: "op affinity … is not compatible with the partition affinity …". It did for 2 of 6 random
  programs of 28 collectives on 4 ranks. No `--iree-stream-partitioning-favor` and no larger
  `--iree-stream-affinity-solver-max-iterations` helps;
* a constant that is transferred stops it too, or crashes the evaluation of constants at compile time, unless it is
  hidden behind `util.optimization_barrier`.

Planned steps do it in the stream dialect at command level, where each operation names its device
(`dmc/lowering/stream.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

from dmc import dialect as dm
from dmc._mlir import func, ir, scf
from dmc.dialect.placements import mesh_of
from dmc.dialect.transfers import SHARDING
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.passes._linked_collectives import RULES, link_collective
from dmc.passes.base import Pass
from dmc.step_function import MEMBERS, NAME, TIE, find_step, functions, symbol
from dmc.step_function import arguments as step_arguments
from dmc.walk import walk

# The rank, an i64, to which an argument or a result belongs.
RANK = "dm.rank"
# Every rank is given the same of these, and none changes them. What is computed from it is computed once, too.
SHARED_ROLES = ("seed",)


@dataclass(frozen=True)
class LinkRanks(Pass):
    """Makes `@step`, one program for every rank of a mesh, one program of all ranks.

    `@step(%x {dm.name = "x"})` with `%y = all_reduce(%x)` becomes `@step(%x0 {dm.name = "x@0", dm.rank = 0},
    %x1 {dm.name = "x@1", dm.rank = 1})` with `%y = %x0 + %x1` for both ranks: all ranks are in one memory, and what a
    collective gives to all is one value, and so is the seed, which is read from the argument of rank 0. Every other
    operation is there once for each rank. A loop with a collective in it stays one loop, which carries the values of
    all ranks. The mesh, its channels and the stated shardings are gone then; without a mesh nothing changes.

    Arguments and results stand rank by rank (`order=rank`: all of rank 0, all of rank 1, …) or port by port
    (`order=port`: x@0, x@1, …, y@0, …). Form lowered and dm-tie-state want state before all else, so they take the
    order by ports.

    Linear in operations × ranks, but for an all-to-all, which has as many slices as pairs of ranks.
    """

    name = "dm-link-ranks"
    order: Literal["rank", "port"] = "rank"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a movement that is no collective on values, and for a collective that may not run."""
        dm.verify_symbols(module)
        meshes = [op for op in module.body.operations if isinstance(op, dm.MeshOp)]
        if not meshes:
            return
        if len(meshes) > 1:
            raise DmcError(meshes[1].operation, "is a second mesh", "the ranks of a job are those of one dm.mesh")
        step = find_step(module)
        _check_functions(module)
        _link(step, mesh_of(meshes[0]), self.order)
        for op in list(module.body.operations):
            if isinstance(op, dm.MeshOp | dm.ChannelOp):
                op.operation.erase()


def _check_functions(module: ir.Module) -> None:
    """Raises DmcError for what is not linked: other movements, and collectives in other functions."""
    for function in functions(module):
        for op in walk(function):
            if op.name in RULES and symbol(function) != "step":
                hint = "inline what @step calls (dm-inline-composites) first"
                raise DmcError(op, f"stands in @{symbol(function)}, but ranks are linked in @step only", hint)
            if op.name.startswith("dm.") and op.name not in (*RULES, dm.CompositeOp.OPERATION_NAME):
                hint = "link after dm-lower-reshard and before movements become asynchronous"
                raise DmcError(op, "cannot be linked: it is no collective on values", hint)


# The rank and the index of each argument, or of each result, of the program of all ranks, in order.
Places = list[tuple[int, int]]
# Where the result of a rank and an index stands.
Ties = dict[tuple[int, int], int]


def _places(count: int, mesh: Mesh, order: str) -> Places:
    if order == "rank":
        return list(product(mesh.ranks, range(count)))
    return [(rank, index) for index, rank in product(range(count), mesh.ranks)]


def _link(old: func.FuncOp, mesh: Mesh, order: str) -> None:
    """Puts the program of all ranks in the place of `old`."""
    inputs, outputs = old.type.inputs, old.type.results
    arguments, results = (_places(len(types), mesh, order) for types in (inputs, outputs))
    kind = ir.FunctionType.get([inputs[i] for _, i in arguments], [outputs[i] for _, i in results])
    new = func.FuncOp("step", kind, loc=old.location, ip=ir.InsertionPoint(old))
    attributes = {name: old.operation.attributes[name] for name in old.operation.attributes}
    attributes["function_type"] = ir.TypeAttr.get(kind)
    ties = {place: position for position, place in enumerate(results)}
    attributes["arg_attrs"] = _linked_attributes(attributes.get("arg_attrs"), arguments, ties)
    attributes["res_attrs"] = _linked_attributes(attributes.get("res_attrs"), results, ties)
    for name, attribute in attributes.items():
        new.operation.attributes[name] = attribute
    block = new.add_entry_block()
    linker = _Linker(mesh, [{} for _ in mesh.ranks])
    taken = dict(zip(arguments, block.arguments, strict=True))
    shared = {port.index for port in step_arguments(old) if port.role in SHARED_ROLES}
    for rank, index in arguments:
        linker.values[rank][old.arguments[index]] = taken[0 if index in shared else rank, index]
    with ir.InsertionPoint(block):
        returned = linker.link(old.entry_block)
        with old.location:
            func.ReturnOp([returned[rank][index] for rank, index in results])
    old.erase()


def _linked_attributes(given: ir.Attribute | None, places: Places, ties: Ties) -> ir.ArrayAttr:
    """The attributes of arguments or results at `places`, which were `given` for one rank."""
    each = [{named.name: named.attr for named in ir.DictAttr(own)} for own in ir.ArrayAttr(given)] if given else []
    return ir.ArrayAttr.get([_of_rank(each[index] if each else {}, rank, ties) for rank, index in places])


def _of_rank(given: dict[str, ir.Attribute], rank: int, ties: Ties) -> ir.DictAttr:
    """What is `given` for an argument or a result of one rank, as it is for `rank` among others."""
    i64 = ir.IntegerType.get_signless(64)
    own = {**given, RANK: ir.IntegerAttr.get(i64, rank)}
    own.pop(SHARDING, None)
    if NAME in given:
        own[NAME] = ir.StringAttr.get(f"{ir.StringAttr(given[NAME]).value}@{rank}")
    if MEMBERS in given:
        own[MEMBERS] = ir.DictAttr.get({f"{named.name}@{rank}": named.attr for named in ir.DictAttr(given[MEMBERS])})
    if TIE in given:
        tie = ties[rank, ir.IntegerAttr(given[TIE]).value]
        own[TIE] = ir.IntegerAttr.get(ir.IndexType.get(), tie)
    return ir.DictAttr.get(own)


@dataclass(frozen=True)
class _Linker:
    """Emits the operations of all ranks at the current insertion point.

    values: for each rank, what stands for a value of the program of one rank.
    """

    mesh: Mesh
    values: list[dict[ir.Value, ir.Value]]

    def link(self, block: ir.Block) -> list[list[ir.Value]]:
        """Links what stands in `block`; gives each rank's operands of its terminator."""
        *body, terminator = (view.operation for view in block.operations)
        for op in body:
            with op.location:
                self._link_op(op)
        return [self._operands(terminator, rank) for rank in self.mesh.ranks]

    def _link_op(self, op: ir.Operation) -> None:
        if op.name in RULES:
            self._link_collective(op)
            return
        # A nested operation is looked at once for each operation around it; loops are not deeply nested.
        collective = next((inner for inner in walk(op) if inner.name in RULES), None)
        if collective is None:
            for rank in self.mesh.ranks:
                self._clone(op, rank)
            return
        if not isinstance(op.opview, scf.ForOp):
            fact = f"holds a {collective.name}, which must run on all ranks or on none"
            raise DmcError(op, fact, "only an scf.for with constant bounds may hold collectives: move it out")
        self._link_loop(op.opview)

    def _link_collective(self, op: ir.Operation) -> None:
        operand, result = op.operands[0], op.results[0]
        for ranks in self.mesh.groups(dm.group_axes(op.opview.group)):
            linked = link_collective(op, [self.values[rank][operand] for rank in ranks])
            for rank, value in zip(ranks, linked, strict=True):
                self.values[rank][result] = value

    def _clone(self, op: ir.Operation, rank: int) -> None:
        own = self.values[rank]
        clone = op.clone()
        for inner in walk(clone):
            for index, operand in enumerate(inner.operands):
                inner.operands[index] = own.get(operand, operand)
            if SHARDING in inner.attributes:
                del inner.attributes[SHARDING]
        own.update(zip(op.results, clone.results, strict=True))

    def _link_loop(self, loop: scf.ForOp) -> None:
        bounds = list(loop.operation.operands)[:3]
        for bound in bounds:
            if isinstance(bound.owner, ir.Block) or bound.owner.name != "arith.constant":
                fact = "holds collectives, but its number of rounds may differ between ranks"
                raise DmcError(loop.operation, fact, "make its bounds and its step constants")
        count = len(loop.operation.results)
        starts = [value for rank in self.mesh.ranks for value in self._operands(loop.operation, rank)[3:]]
        lower, upper, step = (self.values[0][bound] for bound in bounds)
        linked = scf.ForOp(lower, upper, step, starts)
        for rank in self.mesh.ranks:
            mine = slice(rank * count, (rank + 1) * count)
            carried = [linked.induction_variable, *list(linked.inner_iter_args)[mine]]
            self.values[rank].update(zip(loop.body.arguments, carried, strict=True))
            self.values[rank].update(zip(loop.operation.results, list(linked.results)[mine], strict=True))
        with ir.InsertionPoint(linked.body):
            yielded = self.link(loop.body)
            scf.YieldOp([value for own in yielded for value in own])

    def _operands(self, op: ir.Operation, rank: int) -> list[ir.Value]:
        return [self.values[rank][operand] for operand in op.operands]
