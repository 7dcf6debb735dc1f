// Computations kept as a unit.

#ifndef DM_COMPUTE
#define DM_COMPUTE

include "base.td"

def Dm_KernelOp : Dm_Op<"kernel", [Pure, IsolatedFromAbove, SingleBlock]> {
  let summary = "a computation that is scheduled as one unit";
  let description = [{
    Inputs and results are exactly what the kernel reads from and writes to device memory. `implementation` names the
    code that will run and `tiles` its parameters, once they are chosen; `estimated_ns` and `estimated_bytes` are the
    cost model's estimates of its duration in nanoseconds and its traffic in bytes.

    Rules: nothing is captured; the region takes exactly `inputs` and yields exactly the results; it holds no movement,
    so no `dm` op but `dm.composite` and `dm.yield`.

    Lifespan: added by dm-form-kernels; completed by dm-select-kernels; consumed by dm-lower-to-plan; absent from form
    "planned".

    ```mlir
    %y = "dm.kernel"(%x) ({
    ^bb0(%a: tensor<8xf32>):
      %r = arith.addf %a, %a : tensor<8xf32>
      "dm.yield"(%r) : (tensor<8xf32>) -> ()
    }) {implementation = "triton.add", tiles = {block = 128 : i64}} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let handBuilt = 1;
  let arguments = (ins Variadic<Dm_Value>:$inputs, OptionalAttr<StrAttr>:$implementation,
                       OptionalAttr<DictionaryAttr>:$tiles, OptionalAttr<Dm_NonNegative>:$estimated_ns,
                       OptionalAttr<Dm_NonNegative>:$estimated_bytes);
  let results = (outs Variadic<Dm_Value>:$outputs);
  let regions = (region SizedRegion<1>:$body);
}

def Dm_CompositeOp : Dm_Op<"composite", [Pure]> {
  let summary = "an op worth keeping whole";
  let description = [{
    Means what the function `decomposition` computes. `kind` and `parameters` say what that is, so that an
    implementation may take the op as a whole; where none does, the function is inlined. Repeated layers share one
    decomposition.

    Rules: `kind` is not empty; in a module `decomposition` is a private function with a body, of exactly the
    operand and result types; no decomposition reaches itself; none holds an op with effects (`dm.start`,
    `dm.wait`, `dm.send`, `dm.recv`), because the composite is pure.

    Lifespan: added by the importer; taken by dm-select-kernels or inlined; absent from form "planned".

    ```mlir
    %y = "dm.composite"(%x, %w) {kind = "rms_norm", decomposition = @rms_norm_0, parameters = {eps = 1.0e-05 : f64}}
        : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Dm_Value>:$inputs, StrAttr:$kind, FlatSymbolRefAttr:$decomposition,
                       DictionaryAttr:$parameters);
  let results = (outs Variadic<Dm_Value>:$outputs);
}

def Dm_YieldOp : Dm_Op<"yield", [Pure, Terminator, ParentOneOf<["KernelOp", "StartOp"]>]> {
  let summary = "ends the region of a kernel or a start";
  let description = [{
    Gives the region's values to the op around it.

    Rules: directly inside `dm.kernel` or `dm.start`.

    Lifespan: with the op around it.

    ```mlir
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
    ```
  }];
  let arguments = (ins Variadic<Dm_Value>:$values);
}

#endif // DM_COMPUTE
