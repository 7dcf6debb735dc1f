// RUN: dmc-opt %s -p dm-separate-transposes | %FileCheck %s

#id = affine_map<(i, j) -> (i, j)>

// One of two results of a loop is transposed behind a barrier.
// CHECK-LABEL: func.func @several
// CHECK: %[[LOOP:.+]]:2 = linalg.generic
// CHECK: %[[BARRIER:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[LOOP]]#0)
// CHECK: linalg.transpose ins(%[[BARRIER]]
func.func @several(%p: tensor<5x7xf32>, %e: tensor<5x7xf32>, %t: tensor<7x5xf32>) -> (tensor<7x5xf32>, tensor<5x7xf32>) {
  %0:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<5x7xf32>) outs(%e, %e : tensor<5x7xf32>, tensor<5x7xf32>) {
  ^bb0(%x: f32, %out: f32, %out_1: f32):
    %y = math.exp %x : f32
    %z = arith.negf %x : f32
    linalg.yield %y, %z : f32, f32
  } -> (tensor<5x7xf32>, tensor<5x7xf32>)
  %1 = linalg.transpose ins(%0#0 : tensor<5x7xf32>) outs(%t : tensor<7x5xf32>) permutation = [1, 0]
  return %1, %0#1 : tensor<7x5xf32>, tensor<5x7xf32>
}

// CHECK-LABEL: func.func @argument
// CHECK-NOT: compute_barrier_start
func.func @argument(%p: tensor<5x7xf32>, %t: tensor<7x5xf32>) -> tensor<7x5xf32> {
  %1 = linalg.transpose ins(%p : tensor<5x7xf32>) outs(%t : tensor<7x5xf32>) permutation = [1, 0]
  return %1 : tensor<7x5xf32>
}
