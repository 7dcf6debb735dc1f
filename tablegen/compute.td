// Computations kept as a unit.

#ifndef DM_COMPUTE
#define DM_COMPUTE

include "attributes.td"

def Dm_KernelOp : Dm_Op<"kernel", [Pure]> {
  let summary = "a computation that is scheduled as one unit";
  let description = [{
    Runs the function `body` on the operands, which are all that it reads from device memory; the results are all that
    it writes there. Equal computations share one function. Where ranks differ, `variants` names a function for each
    member of `group`, in its order, and `body` is the first of them.
    `flops` counts floating-point operations, `bytes` the traffic through device memory, `scratch` the bytes of device
    memory that the kernel needs besides its operands; `estimated_ns` is the cost model's estimate of its duration.
    `implementation` names the selected code and `tiles` its parameters.

    Rules: in a module `body` is a private function with a body, of exactly the operand and result types, that contains
    no `dm` op except `dm.composite`, and so is each of `variants`; `variants` and `group` come together, one for each
    member.

    Lifespan: added by dm-form-kernels; completed by dm-select-kernels; consumed by dm-lower-to-plan; absent from form
    "planned".

    ```mlir
    %y = "dm.kernel"(%x) {body = @double, implementation = "triton.add", tiles = {block = 128 : i64}}
        : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, FlatSymbolRefAttr:$body,
                       OptionalAttr<FlatSymbolRefArrayAttr>:$variants, OptionalAttr<Dm_GroupAttr>:$group,
                       OptionalAttr<StrAttr>:$implementation, OptionalAttr<DictionaryAttr>:$tiles,
                       OptionalAttr<Dm_NonNegative>:$flops, OptionalAttr<Dm_NonNegative>:$bytes,
                       OptionalAttr<Dm_NonNegative>:$scratch, OptionalAttr<Dm_NonNegative>:$estimated_ns);
  let results = (outs Variadic<AnyStaticShapeTensor>:$outputs);
}

def Dm_CompositeOp : Dm_Op<"composite", [Pure]> {
  let summary = "an operation that may have a dedicated implementation";
  let description = [{
    Equivalent to the function `decomposition`. `kind` and `parameters` identify the operation, so that an
    implementation can replace it as a whole; if none does, the function is inlined. Repeated layers share one
    decomposition.

    Rules: `kind` is not empty; a parameter has a value, which is `none` for an argument that was not given; in a module
    `decomposition` is a private function with a body, of exactly the operand and result types; no decomposition calls
    itself, directly or indirectly; none contains an op with effects (`dm.start`, `dm.wait`, `dm.send`, `dm.recv`),
    because the composite is pure.

    Lifespan: added by the importer; inlined by dm-inline-composites, or kept in the body of a kernel to the end.

    ```mlir
    %y = "dm.composite"(%x, %w) {kind = "rms_norm", decomposition = @rms_norm_0, parameters = {eps = 1.0e-05 : f64}}
        : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Dm_Value>:$inputs, StrAttr:$kind, FlatSymbolRefAttr:$decomposition,
                       DictionaryAttr:$parameters);
  let results = (outs Variadic<Dm_Value>:$outputs);
}

def Dm_YieldOp : Dm_Op<"yield", [Pure, Terminator, HasParent<"StartOp">]> {
  let summary = "ends the region of a start";
  let description = [{
    Returns the region's values to the enclosing op.

    Rules: directly inside `dm.start`.

    Lifespan: with the enclosing op.

    ```mlir
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
    ```
  }];
  let arguments = (ins Variadic<Dm_Value>:$values);
}

#endif // DM_COMPUTE
