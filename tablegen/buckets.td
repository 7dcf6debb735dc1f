// Buckets: a list of tensors and one flat buffer.

#ifndef DM_BUCKETS
#define DM_BUCKETS

include "base.td"

def Dm_PackOp : Dm_Op<"pack", [Pure]> {
  let summary = "packs tensors into one flat buffer";
  let description = [{
    Tensor i lies row-major at `offsets[i]`, counted in elements.

    Rules: at least one tensor; one element type throughout; one offset for each tensor; the tensors do not overlap,
    stay inside the buffer and leave no gap of 256 bytes or more. The space between them, and after the last, is
    alignment padding.

    Lifespan: added by dm-exchange-sums and dm-bucket; placed by dm-plan-memory, without copies where possible; consumed by
    dm-lower-to-plan; absent from form "planned".

    ```mlir
    %flat = "dm.pack"(%a, %b) {offsets = array<i64: 0, 4>} : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<7xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, DenseI64ArrayAttr:$offsets);
  let results = (outs Dm_FlatTensor:$result);
}

def Dm_UnpackOp : Dm_Op<"unpack", [Pure]> {
  let summary = "unpacks tensors from one flat buffer";
  let description = [{
    The inverse of `dm.pack`.

    Rules: those of `dm.pack`, with the results as the tensors.

    Lifespan: added by dm-exchange-sums and dm-bucket; consumed by dm-lower-to-plan; absent from form "planned".

    ```mlir
    %a, %b = "dm.unpack"(%flat) {offsets = array<i64: 0, 4>} : (tensor<7xf32>) -> (tensor<2x2xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins Dm_FlatTensor:$input, DenseI64ArrayAttr:$offsets);
  let results = (outs Variadic<AnyStaticShapeTensor>:$outputs);
}

#endif // DM_BUCKETS
