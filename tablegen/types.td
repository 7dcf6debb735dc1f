// Types: a movement in flight, and pure ordering.

#ifndef DM_TYPES
#define DM_TYPES

include "base.td"

def Dm_Payload : AnyTypeOf<[AnyStaticShapeTensor, NoneType]>;

def Dm_HandleType : Dm_Type<"Handle", "handle"> {
  let summary = "a movement in flight";
  let description = [{
    The result of `dm.start`: the movement will deliver a value of type `payload`, or nothing (`none`) if it only sends.
    A handle is linear: it is waited for exactly once on every path, and until then the operands of the movement
    are borrowed and may not be overwritten.

    Lifespan: with `dm.start` and `dm.wait`.

    Example: `!dm.handle<tensor<8xf32>>`
  }];
  let parameters = (ins
    Dm_Parameter<Dm_Payload, "::mlir::Type", "what the movement delivers", "tensor<8xf32>">:$payload);
  let assemblyFormat = "`<` $payload `>`";
}

def Dm_TokenType : Dm_Type<"Token", "token"> {
  let summary = "pure ordering";
  let description = [{
    Signalled when its movement has completed. It carries no data and may be used any number of times.

    Lifespan: with `dm.start`.

    Example: `!dm.token`
  }];
}

#endif // DM_TYPES
