// RUN: dmc-opt %s -p dm-isolate-draws --split-input-file | %FileCheck %s

// The draw, which is computed, is isolated; the seed is an argument, and the activations may be fused.
// CHECK-LABEL: func.func @computed_draw
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>, %[[SEED:[^:]+]]: tensor<i64>, %[[COUNTER:[^:]+]]: tensor<i64>)
// CHECK: %[[Y:.+]] = math.tanh %[[X]]
// CHECK: %[[DRAW:.+]] = arith.addi %[[COUNTER]], %[[COUNTER]]
// CHECK: %[[BARRIER:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[DRAW]])
// CHECK-NOT: iree_tensor_ext.compute_barrier_start
// CHECK: "dm.composite"(%[[Y]], %[[SEED]], %[[BARRIER]])
func.func @computed_draw(%x: tensor<4xf32>, %seed: tensor<i64>, %counter: tensor<i64>) -> tensor<4xf32> {
  %y = math.tanh %x : tensor<4xf32>
  %draw = arith.addi %counter, %counter : tensor<i64>
  %z = "dm.composite"(%y, %seed, %draw) {kind = "dropout", decomposition = @dropout_0, parameters = {}}
      : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func private @dropout_0(%x: tensor<4xf32>, %seed: tensor<i64>, %draw: tensor<i64>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A near miss: a scalar of another composite is no draw.
// CHECK-LABEL: func.func @other_kind
// CHECK-NOT: iree_tensor_ext.compute_barrier_start
// CHECK: return
func.func @other_kind(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %twice = arith.addi %n, %n : tensor<i64>
  %y = "dm.composite"(%x, %twice) {kind = "scale", decomposition = @scale_0, parameters = {}}
      : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @scale_0(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
