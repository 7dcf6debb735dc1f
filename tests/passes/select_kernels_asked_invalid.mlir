// RUN: not dmc-opt %s -p dm-select-kernels{target=cuda} --split-input-file 2>&1 | %FileCheck %s

// CHECK: implementation("h.0", "cudnn"): cannot be: cudnn can compute none of the 1 kernels of these modules
// CHECK-NEXT: hint: use one of cublaslt, iree, triton, or leave it out
module attributes {dm.verbs = [{verb = "implementation", pattern = "h.0", by = "cudnn"}]} {
  func.func private @product(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<16x64xf32>
    %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
    %y = linalg.matmul ins(%x, %w : tensor<16x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<16x64xf32>)
        -> tensor<16x64xf32>
    return %y : tensor<16x64xf32>
  }
  func.func @step(%a: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
    %y = "dm.kernel"(%a, %w) {body = @product, dm.label = "h.0"} : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    return %y : tensor<16x64xf32>
  }
}

// -----

// CHECK: implementation("h.*", "cublaslt"): has no effect: the kernels of these modules that cublaslt can compute are computed by it anyway
// CHECK-NEXT: hint: leave it out
module attributes {dm.verbs = [{verb = "implementation", pattern = "h.*", by = "cublaslt"}]} {
  func.func private @product(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<16x64xf32>
    %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
    %y = linalg.matmul ins(%x, %w : tensor<16x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<16x64xf32>)
        -> tensor<16x64xf32>
    return %y : tensor<16x64xf32>
  }
  func.func @step(%a: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
    %y = "dm.kernel"(%a, %w) {body = @product, dm.label = "h.0"} : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    return %y : tensor<16x64xf32>
  }
}
