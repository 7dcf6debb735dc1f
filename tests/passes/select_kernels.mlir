// RUN: dmc-opt %s -p dm-select-kernels --split-input-file | %FileCheck %s

// One dispatch needs no memory besides; equal kernels share their function.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"{{.*}}body = @double{{.*}}implementation = "iree"{{.*}}scratch = 0 : i64
// CHECK: "dm.kernel"{{.*}}body = @double{{.*}}implementation = "iree"{{.*}}scratch = 0 : i64
func.func private @double(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = arith.addf %x, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = "dm.kernel"(%x) {body = @double} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = "dm.kernel"(%y) {body = @double} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

// What one dispatch hands to the next lies in the scratch: 16 x 64 f32.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"{{.*}}body = @two_products{{.*}}scratch = 4096 : i64
func.func private @two_products(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y = linalg.matmul ins(%x, %w : tensor<16x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<16x64xf32>)
      -> tensor<16x64xf32>
  %z = linalg.matmul ins(%y, %w : tensor<16x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<16x64xf32>)
      -> tensor<16x64xf32>
  return %z : tensor<16x64xf32>
}
func.func @step(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<16x64xf32> {
  %z = "dm.kernel"(%x, %w) {body = @two_products} : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  return %z : tensor<16x64xf32>
}

// -----

// A value that is copied to its result at the end is made there: the joined pieces need no scratch.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"{{.*}}body = @join{{.*}}scratch = 0 : i64
func.func private @join(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %y = tensor.concat dim(0) %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
func.func @step(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %y = "dm.kernel"(%x) {body = @join} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// A computation by elements may replace its operand. A composite that is opened may not: its loops are not known here.
// CHECK-LABEL: func.func private @double
// CHECK-SAME: dm.in_place = [array<i64: 0, 0>]
// CHECK-LABEL: func.func private @whole
// CHECK-SAME: dm.in_place = []
func.func private @double(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = arith.addf %x, %x : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
func.func private @turned(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %empty = tensor.empty() : tensor<8x8xf32>
  %y = linalg.transpose ins(%x : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) permutation = [1, 0]
  return %y : tensor<8x8xf32>
}
func.func private @whole(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = "dm.composite"(%x) {kind = "turn", decomposition = @turned, parameters = {}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
func.func @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = "dm.kernel"(%x) {body = @double} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = "dm.kernel"(%y) {body = @whole} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}

// -----

// A plan that is only judged: no code, no scratch, and no word on what may replace what.
module attributes {dm.estimate, dm.target = "cpu"} {
  // CHECK-LABEL: func.func private @judged
  // CHECK-SAME: -> tensor<f32> {
  func.func private @judged(%x: tensor<16x64xf32>) -> tensor<f32> {
    %zero = arith.constant dense<0.0> : tensor<16xf32>
    %start = arith.constant dense<0.0> : tensor<f32>
    %y = linalg.reduce ins(%x : tensor<16x64xf32>) outs(%zero : tensor<16xf32>) dimensions = [1]
      (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32 linalg.yield %s : f32 }
    %z = linalg.reduce ins(%y : tensor<16xf32>) outs(%start : tensor<f32>) dimensions = [0]
      (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32 linalg.yield %s : f32 }
    return %z : tensor<f32>
  }
  // CHECK: "dm.kernel"{{.*}}body = @judged{{.*}}implementation = "iree"{{.*}}scratch = 0 : i64
  func.func @step(%x: tensor<16x64xf32>) -> tensor<f32> {
    %z = "dm.kernel"(%x) {body = @judged} : (tensor<16x64xf32>) -> tensor<f32>
    return %z : tensor<f32>
  }
}
