// The asynchronous form of a movement.

#ifndef DM_ASYNC
#define DM_ASYNC

include "attributes.td"
include "types.td"

def Dm_StartOp : Dm_Op<"start", [IsolatedFromAbove, SingleBlock]> {
  let summary = "starts a movement on a queue";
  let description = [{
    The region holds one movement and yields its result. The movement takes the region's argument, which is
    `input`; a receive takes none. It begins when the queue reaches it and every token of `after` is signalled; `token`
    is signalled when it has completed. `input` is borrowed until the wait. `instance` identifies one movement of the
    job on all ranks.

    Rules: exactly one movement (a collective, `dm.send`, `dm.recv` or `dm.copy`) and `dm.yield`; the region takes
    exactly `input`, and the movement exactly the region's arguments; the yield returns exactly the movement's result,
    which is the handle's payload (`none` for a send); the queue matches the movement (`copy_in`: copies to the device,
    `copy_out`: copies from it, `comm`: all but copies, `compute`: any); a send or receive has the same instance as
    its start. In a module an instance is used once, or by the send and the receive of one message.

    Lifespan: added by dm-async; merged by dm-bucket, moved by dm-hoist-start and dm-schedule; consumed by
    dm-lower-to-plan; absent from form "planned".

    ```mlir
    %h, %t = "dm.start"(%x) ({
    ^bb0(%a: tensor<8xf32>):
      %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
      "dm.yield"(%r) : (tensor<8xf32>) -> ()
    }) {queue = #dm.queue<"comm">, instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>}
        : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
    ```
  }];
  let handBuilt = 1;
  let arguments = (ins Optional<AnyStaticShapeTensor>:$input, Variadic<Dm_TokenType>:$after, Dm_QueueAttr:$queue,
                       Dm_NonNegative:$instance);
  let results = (outs Dm_HandleType:$handle, Dm_TokenType:$token);
  let regions = (region SizedRegion<1>:$body);
}

def Dm_WaitOp : Dm_Op<"wait"> {
  let summary = "waits for a movement and returns its result";
  let description = [{
    All uses of the result run after the movement. The wait ends the borrow of the movement's operands.

    Rules: the result is the handle's payload, or absent where the payload is `none`.

    Lifespan: added by dm-async; moved by dm-sink-wait and dm-schedule; consumed by dm-lower-to-plan; absent from form
    "planned".

    ```mlir
    %y = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
    ```
  }];
  let handBuilt = 1;
  let arguments = (ins Dm_HandleType:$handle);
  let results = (outs Optional<AnyStaticShapeTensor>:$result);
}

#endif // DM_ASYNC
