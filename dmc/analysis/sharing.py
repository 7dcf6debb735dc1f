"""Which storages of `@step` share one place in memory, so that nothing is copied and little is held twice.

Joined are, in this order: the members of a bucket
with the bucket; what an all-reduce delivers with what it takes; a new value of state with the old one; the result of an
elementwise kernel with an operand that nobody reads later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.allocation import Sharing
from dmc.analysis.pointwise import Pairs, in_place_pairs
from dmc.analysis.state_sharing import join_state
from dmc.analysis.storage import DEVICE, member_offsets, storages
from dmc.dialect.movement import movement_of
from dmc.step_function import functions, symbol


def share(step: func.FuncOp) -> Sharing:
    """Decides what shares memory in a step in form scheduled, which stands in its module beside the kernels' bodies."""
    sharing = Sharing(storages(step))
    kernels = {symbol(function): function for function in functions(step.operation.parent.opview)}
    pairs = _KernelPairs(kernels)
    ops = sharing.storages.ops
    for position, op in enumerate(ops):
        if isinstance(op.opview, dm.PackOp):
            _join_members(sharing, op, position)
    for position, op in enumerate(ops):
        if isinstance(op.opview, dm.StartOp) and isinstance(movement_of(op.opview), dm.AllReduceOp):
            _join_all_reduce(sharing, op, position)
    join_state(sharing, step, pairs.of)
    for position, op in enumerate(ops):
        if isinstance(op.opview, dm.KernelOp):
            _join_dying(sharing, op, position, pairs.of(op))
    return sharing


@dataclass
class _KernelPairs:
    """Which results of kernels may take the place of which operands."""

    functions: Mapping[str, func.FuncOp]
    known: dict[str, Pairs] = field(default_factory=dict)

    def of(self, op: ir.Operation) -> Pairs:
        """The pairs that hold for every variant."""
        kernel = op.opview
        bodies = [kernel.body, *(kernel.variants or ())]
        return frozenset.intersection(*(self._of_body(ir.FlatSymbolRefAttr(body).value) for body in bodies))

    def _of_body(self, name: str) -> Pairs:
        if name not in self.known:
            self.known[name] = in_place_pairs(self.functions[name])
        return self.known[name]


def _join_members(sharing: Sharing, pack: ir.Operation, position: int) -> None:
    """Lays the operands into the bucket that are made for it alone; the others are to be copied."""
    bucket, _ = sharing.place_of(pack.results[0])
    copied: list[int] = []
    for index, (member, offset) in enumerate(zip(pack.operands, member_offsets(pack), strict=True)):
        root, _ = sharing.place_of(member)
        own = sharing.allocation(root)
        if sharing.is_whole(member) and not own.arguments and own.space == DEVICE and root != bucket:
            sharing.join(bucket, root, offset)
        else:
            copied.append(index)
    if copied:
        sharing.copied[position] = copied


def _join_all_reduce(sharing: Sharing, start: ir.Operation, position: int) -> None:
    """The sum takes the place of the summand if nobody else reads that from the start on."""
    source, target = start.opview.input, start.results[0]
    root, _ = sharing.place_of(source)
    own = sharing.allocation(root)
    if sharing.is_whole(source) and not own.arguments and max(own.last_read_but(position), own.last_write) < position:
        sharing.join(root, sharing.place_of(target)[0], 0)


def _join_dying(sharing: Sharing, kernel: ir.Operation, position: int, pairs: Pairs) -> None:
    """A result takes the place of an operand that nobody reads later."""
    for number, result in enumerate(kernel.results):
        root, _ = sharing.place_of(result)
        if len(sharing.allocation(root).members) > 1:
            continue
        for index, operand in enumerate(kernel.operands):
            if (index, number) in pairs and _may_overwrite(sharing, kernel, position, number, pairs, operand):
                sharing.join(sharing.place_of(operand)[0], root, 0)
                break


def _may_overwrite(
    sharing: Sharing, kernel: ir.Operation, position: int, number: int, pairs: Pairs, operand: ir.Value
) -> bool:
    root, _ = sharing.place_of(operand)
    own = sharing.allocation(root)
    if own.arguments or own.last_write >= position or own.last_read_but(position) >= position:
        return False
    inside = [index for index, each in enumerate(kernel.operands) if sharing.place_of(each)[0] == root]
    return all((index, number) in pairs and sharing.is_whole(kernel.operands[index]) for index in inside)
