"""Which storages of `@step` share memory, to avoid copies and duplicates.

Joined are, in this order: the members of a bucket with the bucket; the result of an all-reduce with its operand; a new
value of state with the old one; the result of an elementwise kernel with an operand that is dead afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.storage.allocation import Sharing
from dmc.analysis.storage.pointwise import Pairs, in_place_pairs
from dmc.analysis.storage.state import join_state
from dmc.analysis.storage.storages import member_offsets, storages, value_bytes
from dmc.dialect.movement import movement_of
from dmc.program import DEVICE
from dmc.step_function import functions, symbol


def share(step: func.FuncOp) -> Sharing:
    """Decides what shares memory in a step in form scheduled, inside its module with the kernels' bodies."""
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
    """Which results of kernels may replace which operands."""

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
    """Places a bucket where its members already lie as in it, else places members computed only for it into the bucket.

    The others must be copied. State is placed into a bucket that contains nothing else, which is then always reserved.
    """
    bucket, _ = sharing.place_of(pack.results[0])
    members = list(zip(pack.operands, member_offsets(pack), strict=True))
    if (found := _common_place(sharing, members, sharing.allocation(bucket).bytes)) is not None:
        sharing.join(found[0], bucket, found[1])
        return
    roots = [sharing.place_of(member)[0] for member in pack.operands]
    is_of_state = len(set(roots)) == len(roots) and all(_is_state_alone(sharing, each) for each in pack.operands)
    is_of_state = is_of_state and sharing.fits(bucket, zip(roots, member_offsets(pack), strict=True))
    copied: list[int] = []
    for index, (member, offset) in enumerate(members):
        root, _ = sharing.place_of(member)
        own = sharing.allocation(root)
        is_made_here = not own.arguments and own.space == DEVICE and root != bucket
        if sharing.is_whole(member) and (is_made_here or is_of_state):
            sharing.join(bucket, root, offset)
        else:
            copied.append(index)
    if copied:
        sharing.copied[position] = copied


def _common_place(sharing: Sharing, members: list[tuple[ir.Value, int]], size: int) -> tuple[int, int] | None:
    """The allocation and offset of a bucket of `size` bytes, if its members already lie as in it."""
    bases = {(root, place - offset) for (root, place), offset in ((sharing.place_of(v), o) for v, o in members)}
    if len(bases) > 1 or len(members) == 1:
        return None
    ((root, base),) = bases
    return (root, base) if 0 <= base <= sharing.allocation(root).bytes - size else None


def _is_state_alone(sharing: Sharing, value: ir.Value) -> bool:
    """Whether the value is whole state outside of buckets."""
    own = sharing.allocation_of(value)
    return sharing.is_whole(value) and len(own.members) == len(own.arguments) == 1 and own.space == DEVICE


def _join_all_reduce(sharing: Sharing, start: ir.Operation, position: int) -> None:
    """The sum replaces the operand if nothing else reads that from the start on."""
    source, target = start.opview.input, start.results[0]
    root, _ = sharing.place_of(source)
    own = sharing.allocation(root)
    if sharing.is_whole(source) and not own.arguments and max(own.last_read_but(position), own.last_write) < position:
        # The sum may be a member of a bucket, where the operand is then placed.
        outer, offset = sharing.place_of(target)
        sharing.join(outer, root, offset)


def _join_dying(sharing: Sharing, kernel: ir.Operation, position: int, pairs: Pairs) -> None:
    """A result replaces an operand that is dead afterwards."""
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
    is_dying = own.last_write < position and own.last_read_but(position) < position
    if own.arguments or not is_dying or not sharing.is_whole(operand):
        return False
    return sharing.may_write(kernel, [number], pairs, sharing.place_of(operand), value_bytes(operand))
