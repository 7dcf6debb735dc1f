// Symbols: the mesh of ranks, and the communicators on it.

#ifndef DM_SYMBOLS
#define DM_SYMBOLS

include "attributes.td"

def Dm_LinkArrayAttr : TypedArrayAttrBase<Dm_LinkAttr, "array of links">;

def Dm_MeshOp : Dm_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "the ranks of the job, arranged along named axes";
  let description = [{
    The job has as many ranks as the product of `sizes`. Ranks are numbered row-major over the axes in the order given,
    so ranks along the last axis are neighbours. `links` gives the slowest link along each axis; cost models read it.

    Rules: at least one axis; names not empty and not repeated; as many sizes and links as axes; sizes at least 1.

    Lifespan: added by the importer, for a plan; read by every later pass; stays to the end.

    ```mlir
    "dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 4>, device = #dm.device<"cuda">,
                 links = [#dm.link<"network">, #dm.link<"nvlink">]} : () -> ()
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes, Dm_DeviceAttr:$device,
                       Dm_LinkArrayAttr:$links);
}

def Dm_RanksArrayAttr : TypedArrayAttrBase<DenseI64ArrayAttr, "array of i64 dense arrays">;

def Dm_ChannelOp : Dm_Op<"channel", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "one communicator for each group";
  let description = [{
    Movements that name the same channel share one communicator. Every rank creates its communicators in the order in
    which the channels are declared, so the order of the declarations is part of the program.

    The groups are those of `group`, or, where axes of the mesh cannot describe them, `groups` lists the ranks of each.
    Listed groups may share ranks and omit ranks; only a plan (dm.collective) can use them.

    Rules: exactly one of `group` and `groups` is given. In a module the group's mesh and axes exist, and every movement
    on the channel has the channel's group. That listed ranks exist is proven with the plan (V3).

    Lifespan: added by dm-assign-queues; named by the lanes of form "planned"; stays to the end.

    ```mlir
    "dm.channel"() {sym_name = "gradients", group = #dm.group<@mesh, ["dp"]>} : () -> ()
    "dm.channel"() {sym_name = "ring", groups = [array<i64: 0, 1>, array<i64: 1, 2>, array<i64: 2, 0>]} : () -> ()
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<Dm_GroupAttr>:$group,
                       OptionalAttr<Dm_RanksArrayAttr>:$groups);
}

#endif // DM_SYMBOLS
