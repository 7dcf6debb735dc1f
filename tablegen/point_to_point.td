// Messages from one rank to one other.

#ifndef DM_POINT_TO_POINT
#define DM_POINT_TO_POINT

include "attributes.td"

def Dm_SendOp : Dm_Op<"send"> {
  let summary = "sends a value to one rank of the group";
  let description = [{
    `target` is an index in the group. `instance` identifies the message: the `dm.recv` with the same instance is its
    other end.

    Rules: `target` is below n, the size of the group; in a module each instance has exactly one send and one
    receive, of equal tensor types and on the same group.

    Lifespan: added when a job is split into pipeline stages; wrapped in `dm.start` by dm-async; absent from form
    "planned".

    ```mlir
    "dm.send"(%x) {target = 1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dm_NonNegative:$target, Dm_NonNegative:$instance,
                       Dm_GroupAttr:$group, OptionalAttr<FlatSymbolRefAttr>:$channel);
}

def Dm_RecvOp : Dm_Op<"recv"> {
  let summary = "receives a value from one rank of the group";
  let description = [{
    `source` is an index in the group. `instance` identifies the message: the `dm.send` with the same instance is its
    other end.

    Rules: `source` is below n, the size of the group; in a module each instance has exactly one send and one
    receive, of equal tensor types and on the same group.

    Lifespan: added when a job is split into pipeline stages; wrapped in `dm.start` by dm-async; absent from form
    "planned".

    ```mlir
    %x = "dm.recv"() {source = 0 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Dm_NonNegative:$source, Dm_NonNegative:$instance, Dm_GroupAttr:$group,
                       OptionalAttr<FlatSymbolRefAttr>:$channel);
  let results = (outs AnyStaticShapeTensor:$result);
}

#endif // DM_POINT_TO_POINT
