// RUN: dmc-opt %s -p "dm-select-kernels{target=cuda reasons}" 2>&1 >%t | %FileCheck %s

// CHECK: {{kernel +by +why}}
// CHECK: {{twice +triton +the most promising; not measured}}
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
// CHECK: {{product +cublaslt +the most promising; not measured}}
func.func private @product(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y = linalg.matmul ins(%x, %w : tensor<16x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<16x64xf32>)
      -> tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}
func.func @step(%x: tensor<4x8xf32>, %a: tensor<16x64xf32>, %w: tensor<64x64xf32>)
    -> (tensor<4x8xf32>, tensor<16x64xf32>) {
  %y = "dm.kernel"(%x) {body = @twice} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = "dm.kernel"(%a, %w) {body = @product} : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  return %y, %z : tensor<4x8xf32>, tensor<16x64xf32>
}
