// RUN: dmc-opt %s -p dm-isolate-transposes | %FileCheck %s

// Two products of 64 rows share one transposed matrix in memory.
// CHECK-LABEL: func.func @right
// CHECK: %[[T:.+]] = linalg.transpose
// CHECK: %[[BARRIER:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[T]])
// CHECK-NOT: compute_barrier_start
// CHECK: linalg.matmul ins(%{{.+}}, %[[BARRIER]]
// CHECK: linalg.matmul ins(%{{.+}}, %[[BARRIER]]
func.func @right(%x: tensor<64x8xf32>, %w: tensor<4x8xf32>, %e: tensor<8x4xf32>, %out: tensor<64x4xf32>)
    -> (tensor<64x4xf32>, tensor<64x4xf32>) {
  %t = linalg.transpose ins(%w : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  %a = linalg.matmul ins(%x, %t : tensor<64x8xf32>, tensor<8x4xf32>) outs(%out : tensor<64x4xf32>) -> tensor<64x4xf32>
  %b = linalg.matmul ins(%x, %t : tensor<64x8xf32>, tensor<8x4xf32>) outs(%a : tensor<64x4xf32>) -> tensor<64x4xf32>
  return %a, %b : tensor<64x4xf32>, tensor<64x4xf32>
}

// Few rows read it few times.
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: compute_barrier_start
func.func @few_rows(%x: tensor<63x8xf32>, %w: tensor<4x8xf32>, %e: tensor<8x4xf32>, %out: tensor<63x4xf32>)
    -> tensor<63x4xf32> {
  %t = linalg.transpose ins(%w : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  %a = linalg.matmul ins(%x, %t : tensor<63x8xf32>, tensor<8x4xf32>) outs(%out : tensor<63x4xf32>) -> tensor<63x4xf32>
  return %a : tensor<63x4xf32>
}

// On the left a matrix is read along its rows all the same.
// CHECK-LABEL: func.func @left
// CHECK-NOT: compute_barrier_start
func.func @left(%x: tensor<8x64xf32>, %w: tensor<8x4xf32>, %e: tensor<64x8xf32>, %out: tensor<64x4xf32>)
    -> tensor<64x4xf32> {
  %t = linalg.transpose ins(%x : tensor<8x64xf32>) outs(%e : tensor<64x8xf32>) permutation = [1, 0]
  %a = linalg.matmul ins(%t, %w : tensor<64x8xf32>, tensor<8x4xf32>) outs(%out : tensor<64x4xf32>) -> tensor<64x4xf32>
  return %a : tensor<64x4xf32>
}
