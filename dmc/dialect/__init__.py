"""The dialect `dm`: `from dmc import dialect as dm`, then `dm.load(context)` and `dm.all_gather(...)`.

`_dm_gen.py` is generated from `tablegen/`; the other modules contain the rules that ODS cannot express, registered by
importing them here. docs/dialect.md is the reference.
"""

from dmc._mlir import ir
from dmc.dialect import buckets, commands, compute, meshes, plan, point_to_point, transfers
from dmc.dialect._dm_gen import (
    AllGatherOp,
    AllReduceOp,
    AllSliceOp,
    AllToAllOp,
    ArenaOp,
    AwaitOp,
    BroadcastOp,
    BufferOp,
    ChannelOp,
    CollectiveOp,
    CompositeOp,
    CopyOp,
    DeviceAttr,
    GroupAttr,
    HandleType,
    KernelOp,
    LaneOp,
    LaunchOp,
    LinkAttr,
    MeshOp,
    MoveOp,
    PackOp,
    PermuteOp,
    ProgramOp,
    QueueAttr,
    RangeAttr,
    RecordOp,
    RecvOp,
    ReduceScatterOp,
    ReductionAttr,
    ReshardOp,
    SendOp,
    ShardingAttr,
    SliceAttr,
    SlotOp,
    SpaceAttr,
    StartOp,
    TokenType,
    UnpackOp,
    WaitOp,
    YieldOp,
    all_gather,
    all_reduce,
    all_slice,
    all_to_all,
    arena,
    await_,
    broadcast,
    buffer,
    channel,
    collective,
    composite,
    copy,
    kernel,
    lane,
    launch,
    mesh,
    move,
    pack,
    permute,
    record,
    recv,
    reduce_scatter,
    reshard,
    send,
    slot,
    unpack,
    yield_,
)
from dmc.dialect.attributes import group, group_axes, partial_axes, sharding, split_axes
from dmc.dialect.base import DM
from dmc.dialect.iree import TensorExt
from dmc.dialect.movement import MOVEMENTS, movement_of, start, wait
from dmc.dialect.plan import bounds, byte_range, program, slice_of
from dmc.dialect.symbols import Symbols, verify_symbols

__all__ = [
    "MOVEMENTS",
    "AllGatherOp",
    "AllReduceOp",
    "AllSliceOp",
    "AllToAllOp",
    "ArenaOp",
    "AwaitOp",
    "BroadcastOp",
    "BufferOp",
    "ChannelOp",
    "CollectiveOp",
    "CompositeOp",
    "CopyOp",
    "DeviceAttr",
    "GroupAttr",
    "HandleType",
    "KernelOp",
    "LaneOp",
    "LaunchOp",
    "LinkAttr",
    "MeshOp",
    "MoveOp",
    "PackOp",
    "PermuteOp",
    "ProgramOp",
    "QueueAttr",
    "RangeAttr",
    "RecordOp",
    "RecvOp",
    "ReduceScatterOp",
    "ReductionAttr",
    "ReshardOp",
    "SendOp",
    "ShardingAttr",
    "SliceAttr",
    "SlotOp",
    "SpaceAttr",
    "StartOp",
    "Symbols",
    "TokenType",
    "UnpackOp",
    "WaitOp",
    "YieldOp",
    "all_gather",
    "all_reduce",
    "all_slice",
    "all_to_all",
    "arena",
    "await_",
    "bounds",
    "broadcast",
    "buffer",
    "byte_range",
    "channel",
    "collective",
    "composite",
    "copy",
    "group",
    "group_axes",
    "kernel",
    "lane",
    "launch",
    "load",
    "mesh",
    "move",
    "movement_of",
    "pack",
    "partial_axes",
    "permute",
    "program",
    "record",
    "recv",
    "reduce_scatter",
    "reshard",
    "send",
    "sharding",
    "slice_of",
    "slot",
    "split_axes",
    "start",
    "unpack",
    "verify_symbols",
    "wait",
    "yield_",
]

# Imported to register their rules.
RULE_MODULES = (buckets, commands, compute, meshes, plan, point_to_point, transfers)


def load(context: ir.Context) -> None:
    """Loads `dm`, and the parts of IREE's `util` that forms use, into a context, unless already loaded.

    Anyone who needs the dialect may call this: an importer, a test, dmc-opt. The bindings refuse to load a dialect
    twice into one context, and an op that was parsed before the dialect was loaded would stay unverified, so every
    entry point loads it first, independently of others.
    """
    if context.is_dialect_loaded(DM.DIALECT_NAMESPACE):
        return
    # The verifiers are Python: MLIR's threads would deadlock with the Python interpreter.
    context.enable_multithreading(False)
    with context:
        DM.load()
        TensorExt.load()
