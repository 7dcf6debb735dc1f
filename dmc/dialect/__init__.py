"""The dialect `dm`: `from dmc import dialect as dm`, then `dm.load(context)` and `dm.all_gather(...)`.

`_dm_gen.py` is generated from `tablegen/`; the modules beside it hold the rules that ODS cannot say, and register them
by being imported here. docs/dialect.md is the reference.
"""

from dmc._mlir import ir
from dmc.dialect import buckets, meshes, point_to_point, transfers
from dmc.dialect._dm_gen import (
    AllGatherOp,
    AllReduceOp,
    AllSliceOp,
    AllToAllOp,
    BroadcastOp,
    ChannelOp,
    CompositeOp,
    CopyOp,
    DeviceAttr,
    GroupAttr,
    HandleType,
    KernelOp,
    LinkAttr,
    MeshOp,
    PackOp,
    PermuteOp,
    QueueAttr,
    RecvOp,
    ReduceScatterOp,
    ReductionAttr,
    ReshardOp,
    SendOp,
    ShardingAttr,
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
    broadcast,
    channel,
    composite,
    copy,
    mesh,
    pack,
    permute,
    recv,
    reduce_scatter,
    reshard,
    send,
    unpack,
    yield_,
)
from dmc.dialect.attributes import group, group_axes, partial_axes, sharding, split_axes
from dmc.dialect.base import DM
from dmc.dialect.compute import kernel
from dmc.dialect.iree import TensorExt
from dmc.dialect.movement import MOVEMENTS, movement_of, start, wait
from dmc.dialect.symbols import Symbols, verify_symbols

__all__ = [
    "MOVEMENTS",
    "AllGatherOp",
    "AllReduceOp",
    "AllSliceOp",
    "AllToAllOp",
    "BroadcastOp",
    "ChannelOp",
    "CompositeOp",
    "CopyOp",
    "DeviceAttr",
    "GroupAttr",
    "HandleType",
    "KernelOp",
    "LinkAttr",
    "MeshOp",
    "PackOp",
    "PermuteOp",
    "QueueAttr",
    "RecvOp",
    "ReduceScatterOp",
    "ReductionAttr",
    "ReshardOp",
    "SendOp",
    "ShardingAttr",
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
    "broadcast",
    "channel",
    "composite",
    "copy",
    "group",
    "group_axes",
    "kernel",
    "load",
    "mesh",
    "movement_of",
    "pack",
    "partial_axes",
    "permute",
    "recv",
    "reduce_scatter",
    "reshard",
    "send",
    "sharding",
    "split_axes",
    "start",
    "unpack",
    "verify_symbols",
    "wait",
    "yield_",
]

# Imported for their rules, which they register.
RULE_MODULES = (buckets, meshes, point_to_point, transfers)


def load(context: ir.Context) -> None:
    """Loads `dm`, and what forms hold of IREE's `util`, into a context; a context that has it already is left alone.

    Anyone who needs the dialect may call this: an importer, a test, dmc-opt. The bindings refuse to load a dialect
    twice into one context, and an op that was parsed before the dialect was loaded would stay unverified, so every
    entry point loads it first and none has to know who else did.
    """
    if context.is_dialect_loaded(DM.DIALECT_NAMESPACE):
        return
    # The verifiers are Python: MLIR's threads would wait for the interpreter while the interpreter waits for them.
    context.enable_multithreading(False)
    with context:
        DM.load()
        TensorExt.load()
