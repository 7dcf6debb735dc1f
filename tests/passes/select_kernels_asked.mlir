// RUN: dmc-opt %s -p "dm-select-kernels{target=cuda reasons}" 2>&1 >%t | %FileCheck %s --check-prefix=WHY
// RUN: dmc-opt %s -p dm-select-kernels{target=cuda} | %FileCheck %s

// The product of one layer is computed by a kernel of dmc, with code of its own, since another layer shares the body;
// what the words do not mean, and what triton computes anyway, stays as it is.
// WHY: {{kernel +by +why}}
// WHY: {{product_triton +triton +the plan asks for it}}
// WHY: {{product +cublaslt +the most promising; not measured}}
// WHY: {{twice_iree +iree}}
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"({{.*}}) {body = @product_triton, dm.label = "h.0.mlp", implementation = "triton", scratch = 0
// CHECK: "dm.kernel"({{.*}}) {body = @product, dm.label = "h.1.mlp", implementation = "cublaslt"
// CHECK: "dm.kernel"({{.*}}) {body = @twice_iree, dm.label = "h.0, backward", implementation = "iree"
// CHECK-NOT: @twice(
module attributes {dm.verbs = [{verb = "implementation", pattern = "h.0", by = "iree"},
                               {verb = "implementation", pattern = "h.0.mlp", by = "triton"}]} {
  func.func private @product(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<16x64xf32>
    %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
    %y = linalg.matmul ins(%x, %w : tensor<16x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<16x64xf32>)
        -> tensor<16x64xf32>
    return %y : tensor<16x64xf32>
  }
  func.func private @twice(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %e = tensor.empty() : tensor<4x8xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%in: f32, %o: f32):
      %s = arith.addf %in, %in : f32
      linalg.yield %s : f32
    } -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
  func.func @step(%a: tensor<16x64xf32>, %w: tensor<64x64xf32>, %t: tensor<4x8xf32>)
      -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<4x8xf32>) {
    %y = "dm.kernel"(%a, %w) {body = @product, dm.label = "h.0.mlp"} : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %z = "dm.kernel"(%y, %w) {body = @product, dm.label = "h.1.mlp"} : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %u = "dm.kernel"(%t) {body = @twice, dm.label = "h.0, backward"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %y, %z, %u : tensor<16x64xf32>, tensor<16x64xf32>, tensor<4x8xf32>
  }
}
