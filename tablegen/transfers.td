// A value changes its memory space or its sharding; its type stays.

#ifndef DM_TRANSFERS
#define DM_TRANSFERS

include "attributes.td"

def Dm_CopyOp : Dm_Op<"copy", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "copies a value from one memory space to another";
  let description = [{
    Rules: operand and result have one type; `source` and `target` differ; where the operand is itself the result of a
    `dm.copy`, `source` is the space that copy went to.

    Lifespan: added by dm-partition and by the passes that move state out of device memory; put into `dm.start` by
    dm-async; absent from form "planned".

    ```mlir
    %h = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"pinned_host">}
        : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_SpaceAttr:$source, Dm_SpaceAttr:$target);
  let results = (outs AnyStaticShapeTensor:$result);
}

def Dm_ReshardOp : Dm_Op<"reshard", [NoMemoryEffect, AllTypesMatch<["input", "result"]>]> {
  let summary = "a change of sharding that is not yet decomposed";
  let description = [{
    Types are those of the whole value, before it is split; so the type is kept.

    Rules: operand and result have one type; both shardings are legal for the rank and name one mesh; a value does
    not become partial (`target` is partial only where `source` is, with the same reduction); in a module the mesh
    has the axes and their sizes divide the dimensions.

    Lifespan: added by dm-propagate-sharding; consumed by dm-partition and dm-lower-reshard; absent from form "placed".

    ```mlir
    %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], []], {}>, target = #dm.sharding<@mesh, [[], []], {}>}
        : (tensor<8x8xf32>) -> tensor<8x8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_ShardingAttr:$source, Dm_ShardingAttr:$target);
  let results = (outs AnyStaticShapeTensor:$result);
}

#endif // DM_TRANSFERS
