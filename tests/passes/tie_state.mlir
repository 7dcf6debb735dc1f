// RUN: dmc-opt %s -p dm-tie-state --split-input-file | %FileCheck %s

// Each changed state tensor is tied to its own result; what is only read stays untied.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.role = "parameter", iree.abi.output = 0 : index}
// CHECK-SAME: %[[F:[^:]+]]: tensor<4xf32> {dm.name = "table", dm.role = "frozen"}
// CHECK-SAME: %[[N:[^:]+]]: tensor<i64> {dm.name = "step", dm.role = "counter", iree.abi.output = 1 : index}
// CHECK-SAME: %[[X:[^:]+]]: tensor<4xf32> {dm.name = "x", dm.role = "batch"}
// CHECK: return %[[X]], %[[N]], %[[F]]
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %f: tensor<4xf32> {dm.name = "table", dm.role = "frozen"},
    %n: tensor<i64> {dm.name = "step", dm.role = "counter"},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<i64> {dm.name = "step"}, tensor<4xf32> {dm.name = "loss"}) {
  return %x, %n, %f : tensor<4xf32>, tensor<i64>, tensor<4xf32>
}

// -----

// Near miss: results under names of their own replace no state, even where type and position would fit.
// CHECK-LABEL: func.func @step
// CHECK-NOT: iree.abi.output
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  return %w : tensor<4xf32>
}

// -----

// Near miss: only @step has state.
// CHECK-LABEL: func.func @step
// CHECK-SAME: iree.abi.output = 0 : index
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "buffer"}) -> (tensor<4xf32> {dm.name = "w"}) {
  return %w : tensor<4xf32>
}
// CHECK-LABEL: func.func private @other
// CHECK-NOT: iree.abi.output
func.func private @other(%w: tensor<4xf32> {dm.name = "w", dm.role = "buffer"}) -> (tensor<4xf32> {dm.name = "w"}) {
  return %w : tensor<4xf32>
}
