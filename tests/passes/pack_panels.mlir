// RUN: dmc-opt %s -p dm-pack-panels{without=other} | %FileCheck %s

// The right matrix of a large product is put into panels of 16 columns, in memory.
// CHECK-LABEL: func.func @large
// CHECK-SAME: (%[[X:[^:]+]]: tensor<512x40xf32>, %[[Y:[^:]+]]: tensor<40x96xf32>
// CHECK: %[[PANELS:.+]] = linalg.transpose {{.+}} outs(%{{.+}} : tensor<6x40x16xf32>)
// CHECK: %[[IN_MEMORY:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[PANELS]])
// CHECK: %[[ROW:.+]] = tensor.collapse_shape %[[IN_MEMORY]]
// CHECK: %[[MATRIX:.+]] = tensor.expand_shape %[[ROW]]
// CHECK: linalg.matmul {panels = true} ins(%[[X]], %[[MATRIX]]
func.func @large(%x: tensor<512x40xf32>, %y: tensor<40x96xf32>, %z: tensor<512x96xf32>) -> tensor<512x96xf32> {
  %0 = linalg.matmul ins(%x, %y : tensor<512x40xf32>, tensor<40x96xf32>) outs(%z : tensor<512x96xf32>) -> tensor<512x96xf32>
  return %0 : tensor<512x96xf32>
}

// Panels would be read too few times by few rows, and a function may be left out.
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: panels
func.func @few_rows(%x: tensor<32x40xf32>, %y: tensor<40x96xf32>, %z: tensor<32x96xf32>) -> tensor<32x96xf32> {
  %0 = linalg.matmul ins(%x, %y : tensor<32x40xf32>, tensor<40x96xf32>) outs(%z : tensor<32x96xf32>) -> tensor<32x96xf32>
  return %0 : tensor<32x96xf32>
}
// CHECK-LABEL: func.func @other
// CHECK-NOT: panels
func.func @other(%x: tensor<512x40xf32>, %y: tensor<40x96xf32>, %z: tensor<512x96xf32>) -> tensor<512x96xf32> {
  %0 = linalg.matmul ins(%x, %y : tensor<512x40xf32>, tensor<40x96xf32>) outs(%z : tensor<512x96xf32>) -> tensor<512x96xf32>
  return %0 : tensor<512x96xf32>
}
