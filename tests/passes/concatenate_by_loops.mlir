// RUN: dmc-opt %s -p dm-concatenate-by-loops | %FileCheck %s

// Two parts beside each other are chosen by a dimension of their own.
// CHECK-LABEL: func.func @inside
// CHECK-NOT: tensor.concat
// CHECK: %[[LOOP:.+]] = linalg.generic {{.*}} outs({{.+}} : tensor<4x2x8xf32>)
// CHECK: linalg.index 1
// CHECK: arith.select
// CHECK: %[[ROW:.+]] = tensor.collapse_shape %[[LOOP]] {{.+}} into tensor<64xf32>
// CHECK: %[[WHOLE:.+]] = tensor.expand_shape %[[ROW]] {{.+}} into tensor<4x16xf32>
// CHECK: return %[[WHOLE]]
func.func @inside(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %0 = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// Along the outermost dimension parts lie in one piece, and unequal ones have no dimension of their own.
// CHECK-LABEL: func.func @left
// CHECK: tensor.concat dim(0)
// CHECK: tensor.concat dim(1)
func.func @left(%a: tensor<4x8xf32>, %b: tensor<4x7xf32>) -> (tensor<8x8xf32>, tensor<4x15xf32>) {
  %0 = tensor.concat dim(0) %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x7xf32>) -> tensor<4x15xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<4x15xf32>
}
