"""dm-pack-state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dmc._mlir import arith, func, ir, linalg
from dmc.dialect.iree import FUSION_BARRIER, fusion_barrier
from dmc.errors import DmcError
from dmc.passes import _arenas
from dmc.passes._elementwise import emit_element
from dmc.passes._order import outliving, production_order
from dmc.passes._update_groups import Column, Group, groups_of
from dmc.passes.base import Pass
from dmc.step_function import (
    arena_attributes,
    arguments,
    find_step,
    functions,
    mutated_state,
    outputs,
    result_attributes,
    symbol,
)
from dmc.walk import reads

UPDATE, SUM_OF_SQUARES = "optimizer_update", "sum_of_squares"


@dataclass(frozen=True)
class PackState(Pass):
    """Lays state out in arenas, flat tensors of many members, so that one kernel updates all members.

    Updates that differ only in shape become one. `@step(%w, %w.m, %x) -> (w', w.m')` becomes
    `@step(%w, %x, %arena0, %arena1) -> (arena0', arena1')`: `%w`, which the step goes on reading, is a view of
    `%arena0`, as `dm.members` of that argument says; `%w.m`, which nothing else reads, is only a member of `%arena1`.

    State is written in place, and the backend keeps no order between that and what reads the old state, through a view
    or not, but the order of data. So an element of everything that is computed from state and outlives the gradients
    goes into one small tensor, the fence, from which updates read their scalars; form lowered checks that
    (`dmc.analysis.in_place`).

    An old value that is computed, as a rank's slice of a parameter that every rank holds whole, is gathered as
    gradients are; its new value is a part of a flat tensor that is no arena.

    One flat buffer for many parameters is the way of ZeRO (Rajbhandari et al., 2020, section 5.2) and of multi-tensor
    optimizers.
    """

    name = "dm-pack-state"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for an update that is not elementwise, or that reads what another update gives."""
        step = find_step(module)
        updates = _composites(step, UPDATE)
        if not updates:
            return
        decompositions = {symbol(function): function for function in functions(module)}
        groups = groups_of(step, updates)
        with step.location:
            flat = _flatten(step, groups)
            _raise_fence(step, groups, [gradient for gradient, *_ in flat])
            new = [_update(step, *each, decompositions) for each in zip(groups, flat, strict=True)]
            _replace_ports(step, groups, [value for values in new for value in values])


def _composites(step: func.FuncOp, kind: str) -> list[ir.Operation]:
    ops = [op.operation for op in step.entry_block.operations]
    composites = [op for op in ops if op.name == "dm.composite"]
    return [op for op in composites if ir.StringAttr(op.attributes["kind"]).value.startswith(kind)]


def _flatten(step: func.FuncOp, groups: Sequence[Group]) -> list[list[ir.Value]]:
    """Emits, before the first operation of the optimizer, the flat tensor of the gradients of each group, and those of
    its old values that are computed.

    Sums of squares of single gradients become those of flat tensors.
    """
    block = list(step.entry_block.operations)
    optimizer = {op for group in groups for op in group.members} | set(_composites(step, SUM_OF_SQUARES))
    cut = next(index for index, op in enumerate(block) if op.operation in optimizer)
    order = production_order(block[:cut])
    with ir.InsertionPoint(block[cut]):
        gradients = [fusion_barrier(_gather(group, group.gradients, order)) for group in groups]
        old = [[_gather(group, column.old, order) for column in group.computed] for group in groups]
    _replace_sums(step, groups, gradients)
    return [[gradient, *values] for gradient, values in zip(gradients, old, strict=True)]


def _raise_fence(step: func.FuncOp, groups: Sequence[Group], gradients: Sequence[ir.Value]) -> None:
    """Emits, before the first update, a small tensor of one element of each value that is computed from state and read
    by updates or returned; updates then read their scalars from it, and so wait for all of these values.
    """
    block = list(step.entry_block.operations)
    updates = {op for group in groups for op in group.members}
    cut = next(index for index, op in enumerate(block) if op.operation in updates)
    state = [step.arguments[argument.index] for argument, _ in mutated_state(step)]
    later = [op.operation for op in block[cut:]]
    # These pass by their flat tensors.
    own = {gradient for group in groups for gradient in group.gradients}
    own |= {value for group in groups for column in group.computed for value in column.old}
    wanted = {value for op in later for value in reads(op)} - own | set(gradients)
    crossing = [_materialised(v) for v in outliving(state, block[:cut], wanted) if not _arenas.is_empty(v.type)]
    if not crossing:
        return
    with ir.InsertionPoint(block[cut]):
        fence = fusion_barrier(_arenas.fence(crossing))
        behind = {value: _arenas.element(fence, index, value.type) for index, value in enumerate(crossing)}
    for op in later[:-1]:
        for index, operand in enumerate(op.operands):
            op.operands[index] = behind.get(operand) or operand


def _materialised(value: ir.Value) -> ir.Value:
    """`value` behind a barrier to fusion, for all its users: there is one kernel that computes it."""
    if value.owner.name == FUSION_BARRIER:
        return value
    users = [(use.owner.operation, use.operand_number) for use in value.uses]
    barrier = fusion_barrier(value)
    for user, index in users:
        user.operands[index] = barrier
    return barrier


def _gather(group: Group, values: Sequence[ir.Value], order: dict[ir.Value, int]) -> ir.Value:
    """Emits the flat tensor of one value for each member."""
    for op, value in zip(group.members, values, strict=True):
        if not isinstance(value.owner, ir.Block) and value not in order:
            raise DmcError(
                op, "reads what is computed after another update", "compute all gradients before the updates"
            )
    pairs = sorted(zip(values, group.offsets, strict=True), key=lambda pair: order.get(pair[0], -1))
    return _arenas.gather([value for value, _ in pairs], [offset for _, offset in pairs], group.length)


def _replace_sums(step: func.FuncOp, groups: Sequence[Group], flat: Sequence[ir.Value]) -> None:
    """Where each gradient of a group has a sum of squares, one of these becomes the group's, and the others nothing.

    A gradient may be that of several parameters, of one group or of two: it then has as many sums, and each stands for
    one of them. Only the terms of one chain are added in another order: what stands between two chains may count them
    differently, as a sum over ranks does.
    """
    sums: defaultdict[ir.Value, list[ir.Operation]] = defaultdict(list)
    chains: dict[ir.Value, ir.Value] = {}
    for op in _composites(step, SUM_OF_SQUARES):
        sums[op.operands[0]].append(op)
        chains[op.results[0]] = chains.get(op.operands[1], op.results[0])
    for group, whole in zip(groups, flat, strict=True):
        if any(count > len(sums[gradient]) for gradient, count in Counter(group.gradients).items()):
            continue
        terms = [sums[gradient].pop(0) for gradient in group.gradients]
        if len({chains[op.results[0]] for op in terms}) > 1:
            continue
        first, *others = terms
        with ir.InsertionPoint(first), first.location:
            total = arith.AddFOp(first.operands[1], _arenas.squares(whole)).result
        first.results[0].replace_all_uses_with(total)
        for op in others:
            op.results[0].replace_all_uses_with(op.operands[1])
        for op in terms:
            op.erase()


def _update(
    step: func.FuncOp, group: Group, flat: Sequence[ir.Value], decompositions: dict[str, func.FuncOp]
) -> list[ir.Value]:
    """Adds the arenas of `group` to the arguments, emits the kernel that updates them, and gives their new values.

    flat: the gradients, then the old values that are computed. Their new values are parts of a flat tensor too.
    """
    first = group.members[0]
    decomposition = decompositions[ir.FlatSymbolRefAttr(first.attributes["decomposition"]).value]
    gradient, *computed = flat
    kinds = [group.flat_type(column.result) for column in group.columns]
    values = iter(computed)
    old = [
        next(values) if column.state is None else step.entry_block.add_argument(kind, first.location)
        for column, kind in zip(group.columns, kinds, strict=True)
    ]
    with ir.InsertionPoint(first), first.location:
        inputs = [gradient, *group.scalars]
        whole, scalar = ir.AffineMap.get_identity(1), ir.AffineMap.get(1, 0, [])
        maps = [whole, *(scalar for _ in group.scalars), *(whole for _ in old)]
        kernel = _arenas.generic(kinds, inputs, old, maps, ["parallel"])
        body = kernel.regions[0].blocks[0]
        data, *scalars = list(body.arguments)[: len(inputs)]
        owner, *slots = list(body.arguments)[len(inputs) :]
        with ir.InsertionPoint(body):
            linalg.YieldOp(emit_element(decomposition, [owner, data, *slots, *scalars]))
        for column in group.computed:
            # In memory before it overwrites the parameter, of which the kernel may read a slice.
            _take_apart(group, column, fusion_barrier(kernel.results[column.result]))
    return [kernel.results[column.result] for column in group.columns if column.state is not None]


def _take_apart(group: Group, column: Column, flat: ir.Value) -> None:
    """Gives the readers of each member's new value its part of `flat`."""
    with ir.InsertionPoint.after(flat.owner.operation):
        for op, offset in zip(group.members, group.offsets, strict=True):
            old = op.results[column.result]
            old.replace_all_uses_with(_arenas.part(flat, ir.RankedTensorType(old.type).shape, offset))


def _replace_ports(step: func.FuncOp, groups: Sequence[Group], arenas: Sequence[ir.Value]) -> None:
    """Gives the step the arguments and results of packed state; `arenas` are the new values of its last arguments."""
    old_arguments = arguments(step)
    packed = {port.name for group in groups for column in group.state for port in column}
    described = [arena for group in groups for arena in group.arenas]
    (terminator,) = [op.operation for op in step.entry_block.operations if op.operation.name == "func.return"]
    state = [result for _, result in mutated_state(step) if result.name not in packed]
    kept = outputs(step)
    returned = [
        *(terminator.operands[p.index] for p in state),
        *arenas,
        *(terminator.operands[p.index] for p in kept),
    ]
    with ir.InsertionPoint(terminator), terminator.location:
        func.ReturnOp(returned)
    terminator.erase()
    for group in groups:
        for op in group.members:
            op.erase()
    gone = {port.index for port in old_arguments if port.name in packed and not list(step.arguments[port.index].uses)}
    given, given_results = list(step.arg_attrs), list(step.operation.attributes["res_attrs"])
    argument_attributes = [
        *(attributes for index, attributes in enumerate(given) if index not in gone),
        *(arena_attributes(name, members) for name, members in described),
    ]
    for index in sorted(gone, reverse=True):
        step.entry_block.erase_argument(index)
    kinds = ir.FunctionType.get([value.type for value in step.arguments], [value.type for value in returned])
    step.operation.attributes["function_type"] = ir.TypeAttr.get(kinds)
    step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(argument_attributes)
    step.operation.attributes["res_attrs"] = ir.ArrayAttr.get(
        [
            *(given_results[port.index] for port in state),
            *(result_attributes(name) for name, _ in described),
            *(given_results[port.index] for port in kept),
        ]
    )
