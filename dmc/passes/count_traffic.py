"""dm-count-traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import arith, func, ir, scf, tensor
from dmc.analysis.traffic import collectives, meshes_of, sent_at_once
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.passes.base import Pass
from dmc.step_function import find_step, functions, result_attributes, symbol

# The added result of `@step`.
TRAFFIC = "traffic"


@dataclass(frozen=True)
class CountTraffic(Pass):
    """Gives `@step` one more result, `traffic`: the bytes that its collectives have sent, over all ranks, an i64.

    `%y = all_gather(%x)` is followed by `%count1 = %count + 1024`; a loop with collectives carries the count. So it is
    added up as the collectives run, once for each time. Run before dm-link-ranks, after which nothing is sent: then
    every rank returns the count of all.
    """

    name = "dm-count-traffic"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a collective outside of `@step`, or in it below anything but an `scf.for`."""
        dm.verify_symbols(module)
        step = find_step(module)
        for function in functions(module):
            if symbol(function) != "step" and (op := next(collectives(function.operation), None)):
                fact = f"stands in @{symbol(function)}, but traffic is counted in @step only"
                raise DmcError(op, fact, "inline what @step calls (dm-inline-composites) first")
        i64 = ir.IntegerType.get_signless(64)
        with step.operation.location:
            with ir.InsertionPoint.at_block_begin(step.entry_block):
                zero = arith.ConstantOp(i64, 0).result
            count = _Counter(meshes_of(module)).count(step.entry_block, zero)
            _return(step, count)


@dataclass(frozen=True)
class _Counter:
    meshes: Mapping[str, Mesh]

    def count(self, block: ir.Block, before: ir.Value) -> ir.Value:
        """The bytes sent once `block` has run, where `before` were sent until then."""
        for op in [view.operation for view in block.operations]:
            first = next(collectives(op), None)
            if first is None:
                continue
            with op.location, ir.InsertionPoint.after(op):
                if first == op:
                    sent = sum(sent_at_once(op, self.meshes).values())
                    before = arith.AddIOp(before, arith.ConstantOp(before.type, sent).result).result
                elif isinstance(op.opview, scf.ForOp):
                    before = self._count_loop(op, before)
                else:
                    fact = f"holds a {first.name}, whose runs are not counted"
                    raise DmcError(op, fact, "only an scf.for may hold collectives: move it out")
        return before

    def _count_loop(self, op: ir.Operation, before: ir.Value) -> ir.Value:
        """Puts a loop that carries the count, too, in the place of `op`; gives the count behind it."""
        types = [*(result.type for result in op.results), before.type]
        attributes = {name: op.attributes[name] for name in op.attributes}
        operands = [*op.operands, before]
        loop = ir.Operation.create(op.name, types, operands, attributes, regions=1)
        body = op.regions[0].blocks[0]
        body.append_to(loop.regions[0])
        count = self.count(body, body.add_argument(before.type, op.location))
        *_, terminator = body.operations
        with terminator.operation.location, ir.InsertionPoint(terminator):
            scf.YieldOp([*terminator.operands, count])
        terminator.operation.erase()
        for old, new in zip(op.results, loop.results, strict=False):
            old.replace_all_uses_with(new)
        op.erase()
        return loop.results[len(types) - 1]


def _return(step: func.FuncOp, count: ir.Value) -> None:
    """`step` returns `count`, too."""
    *_, terminator = step.entry_block.operations
    kind, attributes = step.type, step.operation.attributes
    with terminator.operation.location, ir.InsertionPoint(terminator):
        total = tensor.FromElementsOp(ir.RankedTensorType.get([], count.type), [count]).result
        func.ReturnOp([*terminator.operands, total])
    terminator.operation.erase()
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, [*kind.results, total.type]))
    given = list(attributes["res_attrs"]) if "res_attrs" in attributes else [ir.DictAttr.get({})] * len(kind.results)
    attributes["res_attrs"] = ir.ArrayAttr.get([*given, result_attributes(TRAFFIC)])
