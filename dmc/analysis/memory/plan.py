"""The addresses of everything in `@step`: one arena per memory space, with fixed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.memory.packing import Block, lower_bound, pack
from dmc.analysis.storage.allocation import Sharing
from dmc.analysis.storage.sharing import share
from dmc.program import DEVICE, HOST, PINNED_HOST, STAGED, Space, aligned, device_bytes
from dmc.step_function import STATE_ROLES, Port, arguments, outputs

_SPACES: tuple[Space, ...] = (DEVICE, STAGED, PINNED_HOST, HOST)


@dataclass(frozen=True)
class Arena:
    """The memory of one space. bytes: its size. kept: the bytes that are always reserved. bound: a lower bound of any
    placement, given what shares memory."""

    bytes: int
    kept: int
    bound: int


@dataclass(frozen=True)
class MemoryPlan:
    """All addresses.

    arenas: by memory space, without empty ones. offsets: of allocations, by their index in `sharing`. scratch: offsets
    of the scratch memory of kernels, in the device's arena, by the position of the kernel.
    """

    sharing: Sharing
    arenas: Mapping[Space, Arena]
    offsets: Mapping[int, int]
    scratch: Mapping[int, int]

    @property
    def device_bytes(self) -> int:
        """The memory of the device that the step takes."""
        return device_bytes({space: arena.bytes for space, arena in self.arenas.items()})

    def offset(self, value: ir.Value) -> int:
        """The offset of a tensor, or a handle's result, in the arena of its space."""
        root, offset = self.sharing.place_of(value)
        return self.offsets[root] + offset


def plan_memory(step: func.FuncOp) -> MemoryPlan:
    """Places all values of a step in form scheduled. Linear except for the packing. Raises DmcError as `share` does."""
    sharing = share(step)
    kept = kept_allocations(sharing, step)
    offsets: dict[int, int] = {}
    scratch: dict[int, int] = {}
    arenas: dict[Space, Arena] = {}
    for space in _SPACES:
        own = {root: sharing.allocation(root) for root in kept if sharing.allocation(root).space == space}
        base = max((each.fixed + aligned(each.bytes) for each in own.values() if each.fixed is not None), default=0)
        for root, each in own.items():
            offsets[root] = base if each.fixed is None else each.fixed
            base += aligned(each.bytes) if each.fixed is None else 0
        passing = [root for root in sharing.roots() if root not in kept and sharing.allocation(root).space == space]
        kernels = scratch_of(sharing.storages.ops) if space == DEVICE else {}
        blocks = [_block(sharing, root) for root in passing]
        blocks += [Block(aligned(size), position, position) for position, size in kernels.items()]
        packing = pack(blocks)
        placed = [base + offset for offset in packing.offsets]
        offsets.update(zip(passing, placed, strict=False))
        scratch.update(zip(kernels, placed[len(passing) :], strict=True))
        if base + packing.bytes:
            arenas[space] = Arena(base + packing.bytes, base, base + lower_bound(blocks))
    return MemoryPlan(sharing, arenas, offsets, scratch)


def scratch_of(ops: Sequence[ir.Operation]) -> dict[int, int]:
    """The bytes of scratch memory that kernels need, by position."""
    return {
        position: op.opview.scratch.value
        for position, op in enumerate(ops)
        if isinstance(op.opview, dm.KernelOp) and op.opview.scratch is not None and op.opview.scratch.value
    }


def kept_allocations(sharing: Sharing, step: func.FuncOp) -> dict[int, None]:
    """The allocations that are always reserved: of arguments, by role, and then of outputs."""
    order = {role: number for number, role in enumerate(("parameter", "optimizer", *STATE_ROLES))}
    ports: list[Port] = sorted(arguments(step), key=lambda port: order.get(port.role, len(order)))
    *_, terminator = sharing.storages.ops
    values = [step.arguments[port.index] for port in ports]
    values += [terminator.operands[port.index] for port in outputs(step)]
    return dict.fromkeys(sharing.place_of(value)[0] for value in values)


def _block(sharing: Sharing, root: int) -> Block:
    own = sharing.allocation(root)
    return Block(aligned(own.bytes), own.first, own.last)
