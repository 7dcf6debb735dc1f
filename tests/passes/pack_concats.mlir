// RUN: dmc-opt %s -p dm-pack-concats --split-input-file | %FileCheck %s

// States of a loop, the first of them zeros, which are computed for this concatenation alone.
// CHECK-LABEL: func.func @step
// CHECK: %[[ZEROS:.+]] = linalg.fill
// CHECK: %[[A:.+]] = arith.negf
// CHECK: %[[B:.+]] = arith.mulf
// CHECK: %[[OWN:.+]] = linalg.fill
// CHECK: %[[FLAT:.+]] = "dm.pack"(%[[OWN]], %[[A]], %[[B]]) {offsets = array<i64: 0, 64, 128>}
// CHECK-SAME: -> tensor<192xf32>
// CHECK: %[[ALL:.+]] = tensor.expand_shape %[[FLAT]] {{\[\[}}0, 1{{\]\]}} output_shape [48, 4] : tensor<192xf32> into tensor<48x4xf32>
// CHECK: linalg.reduce ins(%[[ALL]]
module attributes {dm.target = "cpu"} {
func.func @step(%x: tensor<16x4xf32> {dm.name = "x"}) -> (tensor<4xf32> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x4xf32>) -> tensor<16x4xf32>
  %a = arith.negf %x : tensor<16x4xf32>
  %b = arith.mulf %a, %zeros : tensor<16x4xf32>
  %all = tensor.concat dim(0) %zeros, %a, %b : (tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<48x4xf32>
  %start = arith.constant dense<0.0> : tensor<4xf32>
  %y = linalg.reduce ins(%all : tensor<48x4xf32>) outs(%start : tensor<4xf32>) dimensions = [0]
    (%in: f32, %sum: f32) {
      %new = arith.addf %in, %sum : f32
      linalg.yield %new : f32
    }
  return %y : tensor<4xf32>
}
}

// -----

// What stays: a member that is an argument, one that is there twice, one that is part of another value, one that does
// not end at an aligned byte; what the step returns; another dimension. And what another concatenation holds.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-6: tensor.concat
// CHECK: "dm.pack"
// CHECK: tensor.concat
// CHECK-NOT: "dm.pack"
// CHECK: return
module attributes {dm.target = "cpu"} {
func.func @step(%x: tensor<16x4xf32> {dm.name = "x"}, %w: tensor<1x3xf32> {dm.name = "w"}, %u: tensor<32x4xf32> {dm.name = "u"}) -> (tensor<32x4xf32> {dm.name = "y"}, tensor<32x4xf32> {dm.name = "z"}) {
  %a = arith.negf %x : tensor<16x4xf32>
  %b = arith.mulf %a, %x : tensor<16x4xf32>
  %c = arith.negf %w : tensor<1x3xf32>
  %d = arith.mulf %c, %w : tensor<1x3xf32>
  %e = arith.mulf %b, %x : tensor<16x4xf32>
  %v = arith.negf %u : tensor<32x4xf32>
  %half = tensor.extract_slice %v[0, 0] [16, 4] [1, 1] : tensor<32x4xf32> to tensor<16x4xf32>
  %of_argument = tensor.concat dim(0) %a, %x : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  %twice = tensor.concat dim(0) %a, %a : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  %part = tensor.concat dim(0) %half, %a : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  %odd = tensor.concat dim(0) %c, %d : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %returned = tensor.concat dim(0) %e, %b : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  %inner = tensor.concat dim(1) %a, %b : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x8xf32>
  %placed = tensor.concat dim(0) %a, %b : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  %again = tensor.concat dim(0) %b, %a : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  %sum = arith.addf %placed, %again : tensor<32x4xf32>
  return %sum, %returned : tensor<32x4xf32>, tensor<32x4xf32>
}
}
