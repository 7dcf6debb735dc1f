// A value changes its memory space or its sharding.

#ifndef DM_TRANSFERS
#define DM_TRANSFERS

include "attributes.td"

def Dm_CopyOp : Dm_Op<"copy", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "copies a value from one memory space to another";
  let description = [{
    Rules: operand and result have the same type; `source` and `target` differ; where the operand is itself the result
    of a `dm.copy`, `source` is that copy's target.

    Lifespan: added by dm-copy-ports, and by dm-offload in a `dm.start`; wrapped in one by dm-async;
    absent from form "planned".

    ```mlir
    %h = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"pinned_host">}
        : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_SpaceAttr:$source, Dm_SpaceAttr:$target);
  let results = (outs AnyStaticShapeTensor:$result);
}

def Dm_AllSliceOp : Dm_Op<"all_slice", [Pure]> {
  let summary = "every rank keeps its own slice of a replicated value";
  let description = [{
    Rank i of the group keeps slice i of the operand along `dim`. Nothing is sent. The operand must be the same on all
    ranks of the group; then `dm.all_gather` is the inverse, and the name is that of the op in Shardy and in MLIR's
    `shard` dialect.

    Rules: element type and rank kept; `dim` below the rank; the operand's `dim` is n times the result's, all other
    dimensions are equal; n is the size of the group.

    Lifespan: added by dm-lower-reshard; folded by dm-fold-collectives; absent from form "planned".

    ```mlir
    %piece = "dm.all_slice"(%full) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>}
        : (tensor<8x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_NonNegative:$dim, Dm_GroupAttr:$group);
  let results = (outs AnyStaticShapeTensor:$result);
}

def Dm_ReshardOp : Dm_Op<"reshard", [NoMemoryEffect]> {
  let summary = "a change of sharding that is not yet decomposed";
  let description = [{
    Types are those of one rank's part: the operand is the part that `source` gives a rank, the result the part that
    `target` gives it, of the same whole value.

    Rules: element type and rank kept; both shardings are legal for the rank and name the same mesh; a value becomes
    partial (`target` is partial where `source` is not, or by another reduction) by `sum` only; in a module the mesh
    has the axes, and operand and result are parts of one whole.

    Lifespan: added by dm-partition; consumed by dm-lower-reshard; absent from form "placed".

    ```mlir
    %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], []], {}>, target = #dm.sharding<@mesh, [[], []], {}>}
        : (tensor<4x8xf32>) -> tensor<8x8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_ShardingAttr:$source, Dm_ShardingAttr:$target);
  let results = (outs AnyStaticShapeTensor:$result);
}

#endif // DM_TRANSFERS
