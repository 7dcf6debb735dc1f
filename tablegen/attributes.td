// Attributes: where a value lives, how it is split over the mesh, who takes part in a movement.

#ifndef DM_ATTRIBUTES
#define DM_ATTRIBUTES

include "base.td"

def Dm_SpaceAttr : Dm_WordAttr<"Space", "space", ["device", "staged", "pinned_host", "host"]> {
  let summary = "a memory space of one rank";
  let description = [{
    `device` is the memory of the rank's device. `staged` is memory of the device, too, into which the runtime copies
    the inputs of a call while the call before runs; steps only read it. `pinned_host` and `host` are host memory that
    the device can reach without a staging copy. `staged` and `pinned_host` exist once for each call in flight, `host`
    once, and keeps its content from call to call.

    Example: `#dm.space<"pinned_host">`
  }];
}

def Dm_QueueAttr : Dm_WordAttr<"Queue", "queue", ["compute", "comm", "copy_in", "copy_out"]> {
  let summary = "an in-order queue of a rank";
  let description = [{
    Work on one queue runs in the order it was issued; work on different queues overlaps unless a wait or a token
    orders it. `comm` carries collectives and messages, `copy_in` copies to the device, `copy_out` copies from it;
    `compute` may carry anything, and its work does not overlap with computations.

    Example: `#dm.queue<"comm">`
  }];
}

def Dm_ReductionAttr : Dm_WordAttr<"Reduction", "reduction", ["sum", "mean", "prod", "min", "max"]> {
  let summary = "how the values of several ranks are combined";
  let description = [{
    `mean` is the sum divided by the number of ranks, and applies to floating point only.

    Example: `#dm.reduction<"sum">`
  }];
}

def Dm_DeviceAttr : Dm_WordAttr<"Device", "device", ["cpu", "cuda"]> {
  let summary = "the kind of device behind a mesh";
  let description = [{ Example: `#dm.device<"cuda">` }];
}

def Dm_LinkAttr : Dm_WordAttr<"Link", "link", ["memory", "nvlink", "pcie", "network"]> {
  let summary = "the slowest link between neighbours along a mesh axis";
  let description = [{
    `memory` joins ranks that share one process, `nvlink` and `pcie` join devices of one host, `network` joins hosts.

    Example: `#dm.link<"nvlink">`
  }];
}

def Dm_GroupAttr : Dm_Attr<"Group", "group"> {
  let summary = "the ranks that take part in a movement";
  let description = [{
    The ranks that differ only in their coordinates along `axes`: the mesh is divided into disjoint groups of
    n ranks, the product of the sizes of these axes. A rank's index in its group is row-major over `axes` in the order
    given, so that `["dp", "tp"]` and `["tp", "dp"]` are the same ranks in another order.

    Rules: at least one axis, no axis twice; in a module the mesh exists and has these axes.

    Example: `#dm.group<@mesh, ["dp"]>`
  }];
  let parameters = (ins
    Dm_Parameter<FlatSymbolRefAttr, "::mlir::FlatSymbolRefAttr", "the mesh", "@mesh">:$mesh,
    Dm_Parameter<StrArrayAttr, "::mlir::ArrayAttr", "the axes along which members differ", "[\"dp\"]">:$axes);
  let assemblyFormat = "`<` $mesh `,` $axes `>`";
}

def Dm_AxesOfDims : TypedArrayAttrBase<StrArrayAttr, "array of string arrays">;

def Dm_ShardingAttr : Dm_Attr<"Sharding", "sharding"> {
  let summary = "how a tensor is split over a mesh";
  let description = [{
    `dims` has one entry for each dimension of the tensor: the mesh axes that split it, major first (empty: not split).
    An axis may be preceded by a number of blocks, as in `"3*tp"`: the part of the dimension that the axes before it
    leave consists of that many equal blocks, each of which the axis splits. `partial` names the axes along which every
    rank holds only a contribution, and the reduction that combines the contributions. Along every other axis the value
    is replicated.

    Rules: an axis is used at most once in all; the reductions of `partial` may be taken in any order, so they are one
    reduction, or `sum` and `mean`; as many entries as the tensor has dimensions; in a module the mesh exists and has
    these axes. As `dm.sharding` on an argument or a result of a function it states how that is split.

    Example: `#dm.sharding<@mesh, [["dp"], []], {tp = #dm.reduction<"sum">}>` is a matrix whose rows are split over
    `dp` and which must still be summed over `tp`.
  }];
  let parameters = (ins
    Dm_Parameter<FlatSymbolRefAttr, "::mlir::FlatSymbolRefAttr", "the mesh", "@mesh">:$mesh,
    Dm_Parameter<Dm_AxesOfDims, "::mlir::ArrayAttr", "for each dimension the axes that split it",
                 "[[\"dp\"], []]">:$dims,
    Dm_Parameter<DictionaryAttr, "::mlir::DictionaryAttr",
                 "axis to reduction, for partial values", "{tp = #dm.reduction<\"sum\">}">:$partial);
  let assemblyFormat = "`<` $mesh `,` $dims `,` $partial `>`";
}

#endif // DM_ATTRIBUTES
