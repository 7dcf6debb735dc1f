// Collectives in value form: every rank of a group takes part, a tensor goes in and a tensor comes out.
//
// They have no memory effect, so equal ones are merged and unused ones removed, on every rank alike because all ranks
// run one program. They are not speculatable: hoisting one out of a branch would make ranks call it that should not.

#ifndef DM_COLLECTIVES
#define DM_COLLECTIVES

include "attributes.td"

class Dm_Collective<string mnemonic, list<Trait> traits = []> : Dm_Op<mnemonic, [NoMemoryEffect] # traits> {
  let results = (outs AnyStaticShapeTensor:$result);
}

def Dm_AllGatherOp : Dm_Collective<"all_gather"> {
  let summary = "every rank receives the pieces of all ranks, concatenated along a dimension";
  let description = [{
    Rank i's piece becomes slice i of the result along `dim`.

    Rules: element type and rank kept; `dim` below the rank; the result's `dim` is n times the operand's, all other
    dimensions are equal; n is the size of the group.

    Lifespan: added by dm-partition and dm-lower-reshard; wrapped in `dm.start` by dm-async; absent from form "planned".

    ```mlir
    %full = "dm.all_gather"(%piece) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>}
        : (tensor<4x8xf32>) -> tensor<8x8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_NonNegative:$dim, Dm_GroupAttr:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$channel);
}

def Dm_ReduceScatterOp : Dm_Collective<"reduce_scatter"> {
  let summary = "the ranks' values are reduced, and every rank receives its piece";
  let description = [{
    Rank i gets slice i along `dim` of the reduction. Contributions are combined in type `accumulate`, in rank order
    where the implementation allows the order to be chosen.

    Rules: element type and rank kept; `dim` below the rank; the operand's `dim` is n times the result's, all other
    dimensions are equal; n is the size of the group; `accumulate` is of the element type's class and not narrower;
    `mean` applies to floating point only.

    Lifespan: added by dm-partition, dm-lower-reshard and dm-fold-collectives; wrapped in `dm.start` by dm-async;
    absent from form "planned".

    ```mlir
    %piece = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32,
        group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xbf16>) -> tensor<4x8xbf16>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_NonNegative:$dim, Dm_ReductionAttr:$reduction,
                       TypeAttr:$accumulate, Dm_GroupAttr:$group, OptionalAttr<FlatSymbolRefAttr>:$channel);
}

def Dm_AllReduceOp : Dm_Collective<"all_reduce", [AllTypesMatch<["input", "result"]>]> {
  let summary = "the ranks' values are reduced, and every rank receives the whole result";
  let description = [{
    Contributions are combined in type `accumulate`; all ranks get the same bits.

    Rules: operand and result have the same type; `accumulate` is of the element type's class and not narrower; `mean`
    is for floating point only.

    Lifespan: added by dm-partition and dm-lower-reshard; folded by dm-fold-collectives;
    wrapped in `dm.start` by dm-async; absent from form "planned".

    ```mlir
    %sum = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32,
        group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_ReductionAttr:$reduction, TypeAttr:$accumulate,
                       Dm_GroupAttr:$group, OptionalAttr<FlatSymbolRefAttr>:$channel);
}

def Dm_AllToAllOp : Dm_Collective<"all_to_all"> {
  let summary = "every rank sends one slice to every rank";
  let description = [{
    The operand is cut into n slices along `split_dim`; slice j goes to rank j, and the received slices are concatenated
    in rank order along `concat_dim`.

    Rules: element type and rank kept; both dimensions below the rank; if they are equal, the shape is kept and is
    divisible by n along them; otherwise the operand's `split_dim` is n times the result's, the result's `concat_dim` is
    n times the operand's, all other dimensions are equal; n is the size of the group.

    Lifespan: added by dm-partition and dm-lower-reshard; wrapped in `dm.start` by dm-async; absent from form "planned".

    ```mlir
    %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>}
        : (tensor<8x4xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_NonNegative:$split_dim, Dm_NonNegative:$concat_dim,
                       Dm_GroupAttr:$group, OptionalAttr<FlatSymbolRefAttr>:$channel);
}

def Dm_BroadcastOp : Dm_Collective<"broadcast", [AllTypesMatch<["input", "result"]>]> {
  let summary = "every rank receives the value of one rank";
  let description = [{
    Rules: operand and result have the same type; `root`, an index in the group, is below n, the size of the group.

    Lifespan: added by dm-partition; wrapped in `dm.start` by dm-async; absent from form "planned".

    ```mlir
    %y = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_NonNegative:$root, Dm_GroupAttr:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$channel);
}

def Dm_PermuteOp : Dm_Collective<"permute", [AllTypesMatch<["input", "result"]>]> {
  let summary = "ranks pass their values on, each to at most one other";
  let description = [{
    Each pair (source, target) of `source_target_pairs` moves the source's value to the target; both are indices in
    the group. A rank that is not a target gets zeros.

    Rules: operand and result have the same type; at least one pair, pairs of two; no negative index; no source or
    target appears twice; every index is below n, the size of the group.

    Lifespan: added by dm-partition and dm-lower-reshard; wrapped in `dm.start` by dm-async; absent from form "planned".

    ```mlir
    %y = "dm.permute"(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>,
        group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64ElementsAttr:$source_target_pairs, Dm_GroupAttr:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$channel);
}

#endif // DM_COLLECTIVES
